"""This module watches torch's matching, to record the patterns of Inductor's passes that did not
match, and the check that failed, where that was asked for (``record_patterns``).

The matching is in torch/_inductor/pattern_matcher.py: ``PatternMatcherPass.apply``
tries each pattern at each node that calls its last operator. ``MatchContext.match`` is called for
each part of a pattern, so what matched until a check failed is known. After the pattern itself, its
``extra_check`` is asked. That of a traced pattern matches the pattern once more, with the shapes
and numbers of the program in it, and then asks the check of whoever wrote the pattern.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from fx_explorer.capture.inductor import pass_changes
from fx_explorer.capture.inductor.failed_matches import (
    MatchFailure,
    MatchLog,
    forget_patterns,
    is_operator,
    operator_of,
    operators_in,
    operators_of,
    parts_of,
)
from fx_explorer.capture.inductor.near_match_rows import (
    MatchAttempt,
    cut,
    near_match,
    rows_of_attempts,
)
from fx_explorer.capture.inductor.pattern_entries import (
    entry_classes,
    is_of_user,
    plain_function,
    written_at,
    written_check,
)
from fx_explorer.capture.inductor.refused_checks import CheckTrace, explain_refusal
from fx_explorer.capture.recording.fx_graphs import qualified_name
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.private_names import inductor_patterns
from fx_explorer.model import NearMatch
from fx_explorer.model.rows.passes import UNNAMED


@dataclass(eq=False)
class _Application:
    """A ``PatternMatcherPass`` that is applied to a graph."""

    matcher: Any
    attempts: list[MatchAttempt] = field(default_factory=list)
    checking: MatchAttempt | None = None
    """The one whose ``extra_check`` runs."""
    inner: MatchLog | None = None
    """How the pattern matched with the shapes of the program, while it is checked."""
    trace_error: str = ""


class _Here(threading.local):
    """The passes that are applied in this thread, innermost last."""

    def __init__(self) -> None:
        self.applications: list[_Application] = []
        self.logs: list[MatchLog] = []

    @property
    def application(self) -> _Application | None:
        return self.applications[-1] if self.applications else None


_here = _Here()


@contextlib.contextmanager
def near_match_hook(recording: Recording) -> Iterator[None]:
    """Record which patterns did not match, for as long as the block lasts."""
    if not recording.request.record_patterns:
        yield
        return
    with contextlib.ExitStack() as stack:
        watched = functools.partial(_watched_pass, recording)
        stack.enter_context(patched(inductor_patterns.PatternMatcherPass, "apply", watched))
        parts = functools.partial(_watched_part, recording)
        stack.enter_context(patched(inductor_patterns.MatchContext, "match", parts))
        whole = functools.partial(_watched_pattern, recording)
        for pattern in (inductor_patterns.PatternExpr, inductor_patterns.MultiOutputPattern):
            stack.enter_context(patched(pattern, "match", whole))
        for entry in entry_classes():
            stack.enter_context(patched(entry, "apply", _watched_replacement))
        stack.enter_context(patched(inductor_patterns, "log_trace_failure", _watched_trace_failure))
        stack.callback(forget_patterns)
        yield


def _watched_pass(recording: Recording, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def apply(matcher: Any, graph: Any) -> Any:
        stage = pass_changes.running_stage()
        if stage is None or not matcher.patterns:
            return original(matcher, graph)
        application = _Application(matcher)
        rows: list[NearMatch] = []
        with recording.noting("patterns without their last operator", "post_grad"):
            rows += without_last_operator(matcher, getattr(graph, "graph", graph))
        begun = len(stage.passes)
        _here.applications.append(application)
        try:
            with _watched_checks(application, recording):
                return original(matcher, graph)
        finally:
            _here.applications.remove(application)
            with recording.noting("patterns that did not match", "post_grad"):
                rows += rows_of_attempts(application.attempts)
                # Torch begins a pass of its own for each matcher; patterns may begin more in it.
                for each in stage.passes[begun:]:
                    if not each.name.startswith(UNNAMED):
                        each.near_matches += rows
                        break

    return apply


def _watched_pattern(recording: Recording, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def match(pattern: Any, node: Any) -> Any:
        application = _here.application
        if application is None:
            return original(pattern, node)
        log = MatchLog()
        _here.logs.append(log)
        try:
            result = original(pattern, node)
        finally:
            _here.logs.remove(log)
        log.has_matched = bool(result)
        with recording.noting("a pattern that was tried", "post_grad"):
            if application.checking is not None:
                application.inner = log
            else:
                entry = _entry_tried(application, pattern, node)
                if entry is not None:
                    match = result if log.has_matched else None
                    application.attempts.append(MatchAttempt(entry, node, log, match))
        return result

    return match


def _watched_part(recording: Recording, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def match(context: Any, pattern: Any, node: Any) -> Any:
        log = _here.logs[-1] if _here.logs else None
        if log is None:
            return original(context, pattern, node)
        log.enter(context, pattern, node)
        try:
            result = original(context, pattern, node)
        except inductor_patterns.FailedMatch as failed:
            with recording.noting("a part of a pattern", "post_grad"):
                log.note_failure(failed)
            raise
        else:
            if not result:
                with recording.noting("a part of a pattern", "post_grad"):
                    log.note_failure(result)
        finally:
            log.leave()
        return result

    return match


def _watched_replacement(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def apply(entry: Any, match: Any, *args: Any, **kwargs: Any) -> Any:
        application = _here.application
        attempt = application.attempts[-1] if application and application.attempts else None
        if attempt is None or application is None or application.checking:
            return original(entry, match, *args, **kwargs)
        attempt.was_applied = True
        result = original(entry, match, *args, **kwargs)
        attempt.has_replaced = not attempt.node.users
        return result

    return apply


def _watched_trace_failure(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def log_trace_failure(search_fn: Any, error: RuntimeError) -> None:
        application = _here.application
        if application is not None:
            application.trace_error = str(error)
        original(search_fn, error)

    return log_trace_failure


def _entry_tried(application: _Application, pattern: Any, node: torch.fx.Node) -> Any:
    """Return the entry of a pattern that is tried at a node; None for a foreign pattern. Torch
    tries the entries of a node in their order.
    """
    key = node.op, inductor_patterns.extract_target(node)
    entries = application.matcher.patterns.get(key, ())
    tried = []
    for attempt in reversed(application.attempts):
        if attempt.node is not node:
            break
        tried.append(attempt.entry)
    for entry in entries:
        if entry.pattern is pattern and not any(entry is other for other in tried):
            return entry
    return None


# The checks of patterns.


@contextlib.contextmanager
def _watched_checks(application: _Application, recording: Recording) -> Iterator[None]:
    """Watch the ``extra_check`` of each pattern inside the block."""
    watched: list[tuple[Any, Any]] = []
    for entries in application.matcher.patterns.values():
        for entry in entries:
            if not isinstance(entry.extra_check, _WatchedCheck):
                watched.append((entry, entry.extra_check))
                entry.extra_check = _WatchedCheck(
                    recording, entry.extra_check, written_check(entry)
                )
    try:
        yield
    finally:
        for entry, check in watched:
            entry.extra_check = check


class _WatchedCheck:
    """Calls the check of a pattern, and notes why it says no."""

    def __init__(
        self, recording: Recording, check: Callable[[Any], Any], written: Callable[[Any], Any]
    ) -> None:
        self.__wrapped__ = check
        self._recording = recording
        self._written = plain_function(written)

    def __call__(self, match: Any) -> Any:
        application = _here.application
        if application is None or application.checking or not application.attempts:
            return self.__wrapped__(match)
        attempt = application.attempts[-1]
        attempt.was_checked = True
        application.checking, application.inner, application.trace_error = attempt, None, ""
        trace = CheckTrace(getattr(self._written, "__code__", None))
        try:
            with trace.following():
                result = self.__wrapped__(match)
        finally:
            application.checking = None
        if result is False or result is None:
            with self._recording.noting("why a check said no", "post_grad"):
                attempt.failure = self._why(application, attempt, trace)
        return result

    def _why(
        self, application: _Application, attempt: MatchAttempt, trace: CheckTrace
    ) -> MatchFailure:
        """Return why the check failed: the pattern did not match with the program's shapes, could
        not be traced with them, or its own function refused.
        """
        matched = tuple(node.name for node in attempt.match.nodes)
        if application.trace_error:
            error = cut(application.trace_error)
            return MatchFailure("traced", matched, found=error, is_specific=True)
        if application.inner is not None:
            failure = application.inner.failure(is_specific=True)
            if failure is not None:
                return failure
        name = qualified_name(self._written)
        if trace.last is None:
            return MatchFailure("check", matched, expected=name)
        refusal = explain_refusal(trace.last)
        return MatchFailure(
            "check",
            matched,
            expected=f"{name}: {refusal.condition}",
            found=refusal.values,
            check_file=refusal.file,
            check_line=refusal.line,
        )


def without_last_operator(matcher: Any, graph: torch.fx.Graph) -> list[NearMatch]:
    """Return a row for each pattern of which all but the last operator is in a graph, and is not
    used by such an operator: torch does not try those. Of a pattern of the user's that torch tries
    nowhere, and that is not there without its last operator, return a row without a node.
    """
    nodes: dict[Any, list[torch.fx.Node]] = {}
    for node in graph.nodes:
        if node.op == "call_function":
            nodes.setdefault(node.target, []).append(node)
    entries = {id(entry): entry for of_key in matcher.patterns.values() for entry in of_key}
    rows: list[NearMatch] = []
    for entry in entries.values():
        rows_of_entry = list(_without_last(entry, nodes))
        is_tried = any(nodes.get(target) for target in getattr(entry.pattern, "fns", ()))
        if not rows_of_entry and not is_tried and is_of_user(written_at(entry)[0]):
            whole = _first_operator(entry.pattern)
            if whole is not None:
                failure = MatchFailure("last operator", (), expected=operators_of(whole))
                rows_of_entry.append(near_match(entry, failure, "", 0))
        rows += rows_of_entry
    return rows


def _first_operator(pattern: Any) -> Any:
    operators = operators_in(pattern)
    return operators[0] if operators else None


def _without_last(entry: Any, nodes: dict[Any, list[torch.fx.Node]]) -> Iterator[NearMatch]:
    whole = _first_operator(entry.pattern)
    if whole is None:
        return
    size = len(operators_in(entry.pattern))
    least = 1 if is_of_user(written_at(entry)[0]) else 2
    for part in parts_of(whole):
        if not is_operator(part):
            continue
        matching = len(operators_in(part))
        if matching < least or matching * 2 < size:
            continue
        for node in [node for target in part.fns_set for node in nodes.get(target, ())]:
            if any(user.target in whole.fns_set for user in node.users):
                continue
            match = part.match(node)
            if match:
                matched = tuple(node.name for node in match.nodes)
                users = ", ".join(operator_of(user) for user in node.users) or "nothing"
                failure = MatchFailure(
                    "last operator", matched, node.name, "", operators_of(whole), users
                )
                yield near_match(entry, failure, node.name, matching)
