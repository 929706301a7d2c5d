"""This module compiles another variant from the keyboard: with passes, options, regions marked by
hand, or from a stage again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fx_explorer.analysis.lineage import root_name
from fx_explorer.folders import typed_path
from fx_explorer.model import (
    GATE_WORDS,
    GRAPH_GATES,
    TWICE_THE_BATCH,
    Changes,
    Command,
    Compilation,
    Direction,
    Gate,
    Mark,
    PassFile,
    Stage,
)
from fx_explorer.session import SessionReader
from fx_explorer.tui.availability import NO_REQUEST
from fx_explorer.tui.background_tasks import read_in_thread
from fx_explorer.tui.content.live import Waiting
from fx_explorer.tui.controllers.services import Services
from fx_explorer.tui.controllers.stepping import Stepping
from fx_explorer.tui.conversation import ask, conversation
from fx_explorer.tui.dialogs.choose import Choice, Chooser, matching
from fx_explorer.tui.dialogs.dialog import Ask

if TYPE_CHECKING:
    from fx_explorer.analysis.documents import Place
    from fx_explorer.analysis.hand_marks import Markable
    from fx_explorer.analysis.other_variants import VariantStart
    from fx_explorer.instruments.decisions.other_choices import OtherChoice
    from fx_explorer.instruments.options.explained_options import SetByHand, Without
    from fx_explorer.instruments.options.trial import OptionTrial
    from fx_explorer.model import CaptureRequest, Kernel
    from fx_explorer.trials import Told
    from fx_explorer.variant_trials import VariantTrial

NOTHING_MARKED = (
    "Nothing was marked by hand. Go to a node, or to a line of your source, and press c m: "
    "then this shows the marks as a diff."
)

NO_GENERATED_KERNEL = (
    "There is no kernel here that Inductor generated: go to one, or to a line that it computes."
)

NOTHING_TO_FUSE = (
    "Nothing can be asked of this kernel: it computes one operation, and no other generated kernel "
    "accesses the same memory."
)

NO_DECISION = (
    "Nothing is known here of what Inductor decided: go to a kernel, to a library call of the "
    "output code, to a node of a graph, or to a row of v z."
)

GATE_OF_CHOICES: Gate = "post_grad"

KEPT_IN_VIEW = "The view of kernels that were not fused (v y) keeps this answer."


def _only(title: str, waiting: Waiting) -> str:
    if waiting.compilation:
        return f"{title} · only [{waiting.compilation}] while it waits here"
    return title


class Variants:
    """Compiles another variant: of a compilation that waits, or from a finished stage."""

    try_choice: Callable[..., Awaitable[VariantTrial]] | None = None
    """A replacement for ``decisions.trial.try_choice``; None uses a worker."""

    def __init__(self, services: Services, stepping: Stepping) -> None:
        self._services = services
        self._stepping = stepping
        self.app = services.app
        self._option_trials: dict[Path, list[OptionTrial]] = {}
        """Other options that were tried, by session."""
        self._set_by_hand: dict[Path, list[SetByHand]] = {}
        """Options that were set while a compilation waited, by session."""

    @conversation("apply pass", "choose a pass file")
    async def apply_pass(self) -> None:
        """Ask for a pass file, and apply it to the graph that waits, or compile a variant with it
        from an earlier gate.
        """
        waiting = self._stepping.at_rest()
        if waiting is None:
            return
        start = None
        if waiting.gate not in GRAPH_GATES:
            start = await self._choose_start(
                "Apply a pass to the graph, and compile again", waiting
            )
            if start is None:
                return
        gate = start.gate if start else waiting.gate
        assert gate is not None
        path = await self._ask_pass_file(gate)
        if path is None:
            return
        if start:
            self._compile_variant(start, Changes(passes=(PassFile(gate, str(path)),)))
        else:
            changes = Changes(passes=(PassFile(gate, str(path), waiting.direction),))
            self._stepping.send(Command("pass", changes=changes), f"applying {path.name}")

    async def _ask_pass_file(self, gate: Gate) -> Path | None:
        words = f"Python file with pass_(gm), for the graph after {GATE_WORDS[gate]}"
        typed = await ask(self.app, Ask(words, "", verb="applies"))
        if not typed:
            return None
        path = typed_path(typed).absolute()
        if not path.is_file():
            self._services.notify(
                f"There is no file {path}: give the path of a Python file that defines pass_(gm).",
                severity="warning",
            )
            return None
        return path

    @conversation("change option", "look at options, and choose some")
    async def change_option(self) -> None:
        """Show the options, and change some. This works on a saved session too: values are
        explained, and a worker tries others.
        """
        live = self._services.captures.live
        waits = live is not None and not live.is_over and live.waiting is not None
        is_at_rest = live is not None and live.waiting is not None and live.waiting.gate is None
        settings = await self._choose_settings(follows=waits, is_at_rest=is_at_rest)
        if settings and is_at_rest:
            await self._compile_with(settings)
        elif settings:
            waiting, reader = self._services.captures.waiting, self._services.stepped_session
            if waiting and waiting.gate and reader:
                from fx_explorer.instruments.options.explained_options import SetByHand

                done = SetByHand(waiting.gate, waiting.compilation, settings)
                self._set_by_hand.setdefault(reader.path, []).append(done)
            self._stepping.send(
                Command("set", changes=Changes(settings)), f"setting {', '.join(settings)}"
            )

    async def _compile_with(self, settings: dict[str, object]) -> None:
        """Compile a variant with other options from its earliest stage, and show its output code
        beside the original's.
        """
        waiting = self._stepping.at_rest()
        if waiting is None:
            return
        first: dict[str, VariantStart] = {}
        for start in self._starts(waiting):
            first.setdefault(root_name(start.compilation), start)
        if not first:
            return
        chosen: VariantStart | None = next(iter(first.values()))
        if len(first) > 1:
            choices = [Choice(start.words, start.redone, start) for start in first.values()]
            chosen = await ask(self.app, Chooser("Compile again with it", matching(choices)))
        if chosen is None:
            return
        command = Command(
            "again",
            gate=chosen.gate,
            compilation=chosen.compilation,
            changes=Changes(settings),
        )
        self._send_and_compare(command, f"compiling {chosen.words}", begins_at="output_code")

    async def _choose_settings(
        self, *, follows: bool = True, is_at_rest: bool = False
    ) -> dict[str, object]:
        """Ask which options to change. With ``follows``, the compiler waits and can continue with
        them; ``is_at_rest``: everything is compiled, and a variant can be compiled with them.
        """
        from fx_explorer.tui.dialogs.settings_dialog import COMPILE_AGAIN, USE, options_dialog

        reader = self._services.stepped_session
        session = reader.path if reader else Path()
        trials = self._option_trials.setdefault(session, [])
        worker, keymap = self._services.worker_of_trials, self._services.explorer.keymap
        ask_first = self._services.ask_to_run
        dialog = options_dialog(
            reader,
            worker,
            trials,
            keymap,
            follows=follows,
            use=COMPILE_AGAIN if is_at_rest else USE,
            ask_first=ask_first,
            show_trial=self._show_trial,
        )
        return await ask(self.app, dialog)

    async def _show_trial(self, trial: OptionTrial) -> None:
        """Show what other options change, beginning with the first kernel whose code differs."""
        # few compare
        from fx_explorer.instruments.diff.differences import differences_of_files
        from fx_explorer.instruments.options.trial import describe_settings
        from fx_explorer.tui.screens.difference_screens import ChangesScreen

        code = trial.code
        if code is None:
            return
        compare = partial(differences_of_files, code.before)
        differences = await read_in_thread(code.after, compare)
        changed = describe_settings(trial.settings)
        sides = ("as it was", changed)
        screen = ChangesScreen(
            f"as it was → {changed}",
            code.before,
            code.after,
            differences,
            "code",
            self._services.explorer.keymap,
            sides,
        )
        await self.app.push_screen(screen)

    @conversation("another variant", "choose where to start from")
    async def compile_again(self) -> None:
        waiting = self._stepping.at_rest()
        if waiting is None:
            return
        without = self._without_what_was_set(waiting)
        choices: list[Choice[VariantStart | Without]] = [
            Choice(variant.words, variant.detail, variant) for variant in without
        ]
        choices += [Choice(start.words, start.redone, start) for start in self._starts(waiting)]
        if choices:
            start = await ask(self.app, Chooser(_only("Compile again", waiting), matching(choices)))
        else:
            start = None
        if start is None:
            return
        from fx_explorer.instruments.options.explained_options import (
            Without,  # not for the first paint
        )

        if isinstance(start, Without):
            self._compile_and_compare(start)
            return
        changes = await self._choose_changes(start.words, start)
        if changes is not None:
            self._compile_variant(start, changes)

    @conversation("what if", "ask for other inputs")
    async def what_if(self) -> None:
        if self._stepping.at_rest() is None:
            return
        words = "Would other inputs fit? Give them as for --inputs"
        typed = await ask(self.app, Ask(words, TWICE_THE_BATCH, verb="asks the guards"))
        if typed:
            expression = "" if typed == TWICE_THE_BATCH else typed
            self._stepping.send(
                Command("what_if", expression=expression), f"asking the guards about {typed}"
            )

    async def _choose_changes(self, title: str, start: VariantStart) -> Changes | None:
        """Ask for options of another variant; None if the user cancels."""
        from fx_explorer.analysis.other_variants import (
            changes_offered,  # not needed for the first paint
        )

        choices = [Choice(offer.words, offer.detail, offer) for offer in changes_offered(start)]
        offered = await ask(self.app, Chooser(title, matching(choices)))
        if offered is None or offered.settings is not None:
            if offered:
                return Changes(offered.settings or {})
            return None
        settings = await self._choose_settings()
        return Changes(settings) if settings else None

    def _without_what_was_set(self, waiting: Waiting) -> list[Without]:
        """Return the variants that leave out options set by hand. Empty until the compilation is
        complete, because only then the settings have had their effect.
        """
        from fx_explorer.instruments.options.explained_options import without_what_was_set

        reader = self._services.stepped_session
        if reader and waiting.gate is None:
            done = self._set_by_hand.get(reader.path, [])
        else:
            done = []
        if reader and done:
            return list(without_what_was_set(reader, done))
        return []

    @conversation("fuse or split", "choose what to fuse, or a kernel to take apart")
    async def change_fusion(self) -> None:
        """Ask what the kernel under the cursor shall be fused with, compile that, and show it
        beside the kernels of before.
        """
        # not for the first paint
        from fx_explorer.instruments.fusion.asked import GATE, changes_for, offered_fusions
        from fx_explorer.instruments.fusion.trial import why_not_as_asked
        from fx_explorer.variant_trials import has_same_kernels

        waiting, explorer = self._stepping.at_rest(), self._services.explorer
        reader = self._services.stepped_session
        if waiting is None or reader is None:
            return
        place = explorer.cursor.place_or_selection
        kernel = explorer.linked_selection.kernel_at(place) if place else None
        if kernel is None or kernel.language == "extern":
            self._services.notify(NO_GENERATED_KERNEL)
            return
        offers = offered_fusions(reader, kernel)
        if not offers:
            self._services.notify(NOTHING_TO_FUSE)
            return
        title = f"#{kernel.id} {kernel.name}"
        choices = [Choice(offer.words, offer.detail, offer) for offer in offers]
        chosen = await ask(self.app, Chooser(_only(title, waiting), matching(choices)))
        if chosen is None:
            return
        asked, changes = chosen.asked, changes_for(reader, chosen.asked)
        command = Command(
            "again",
            gate=GATE,
            compilation=asked.first.compilation,
            direction=kernel.direction,
            changes=Changes(fusions=changes),
        )

        def say_refused(reader: SessionReader, original: Compilation, variant: Compilation) -> bool:
            refused = why_not_as_asked(reader, original, variant, asked, changes)
            if not refused:
                return False
            title = f"Inductor did not do it, as [{variant.name}]"
            text = f"{refused} {KEPT_IN_VIEW}" if asked.kind == "together" else refused
            self._services.notify(text, title=title, severity="warning", timeout=20)
            return has_same_kernels(reader, original, variant, asked.first.direction)

        self._send_and_compare(command, f"compiling: {chosen.words}", refuse=say_refused)

    @conversation("another choice", "choose what Inductor shall do otherwise")
    async def try_other_choice(self) -> None:
        """Ask which other choice to try at the decisions about the kernel or node under the cursor,
        compile with it, and show it beside Inductor's own. Where the program has ended its worker
        does it; of a saved session a worker of its own captures the program first.
        """
        # not for the first paint
        from fx_explorer.instruments.decisions.trial import why_no_difference

        explorer = self._services.explorer
        reader, place = explorer.reader, explorer.cursor.place_or_selection
        if reader is None or place is None:
            self._services.notify(NO_DECISION)
            return
        chosen = await self._ask_choice(reader, place)
        if chosen is None:
            return
        kernel, choice = chosen
        (compilation,) = reader.by_ids(Compilation, [kernel.compilation])
        if not self._stepping.rests:
            await self._try_in_worker(reader, (compilation.name, kernel.direction), choice)
            return

        def say_same(reader: SessionReader, original: Compilation, variant: Compilation) -> bool:
            same = why_no_difference(kernel.direction, reader, original, variant, choice.changes)
            if same:
                self._say_same(choice, same)
            return bool(same)

        command = Command(
            "again",
            gate=GATE_OF_CHOICES,
            compilation=compilation.name,
            direction=kernel.direction,
            changes=choice.changes,
        )
        self._send_and_compare(command, f"compiling: {choice.words}", refuse=say_same)

    async def _ask_choice(
        self, reader: SessionReader, place: Place
    ) -> tuple[Kernel, OtherChoice] | None:
        """Ask for one of the other choices at a place; None if the user cancels, or there is none:
        then the user is told why.
        """
        from fx_explorer.analysis.documents import node_at
        from fx_explorer.instruments.decisions.other_choices import other_choices, why_no_other
        from fx_explorer.tui.content.inspect_decisions import decisions_at

        decisions = decisions_at(reader, place, node_at(reader, place))
        choices: dict[str, Choice[tuple[Kernel, OtherChoice]]] = {}
        for explained in decisions:
            for other in other_choices(reader, explained):
                about = f"{explained.decision.kind} · {other.detail}"
                choice = Choice(other.words, about, (explained.kernel, other))
                choices.setdefault(f"{other.words} {other.detail}", choice)
        if not choices:
            reasons = list(dict.fromkeys(why_no_other(explained) for explained in decisions))
            message = " ".join(reasons[:2]) or NO_DECISION
            self._services.notify(message, title="nothing else to try", timeout=20)
            return None
        title = "What shall Inductor do otherwise?"
        return await ask(self.app, Chooser(title, matching(list(choices.values()))))

    async def _try_in_worker(
        self, reader: SessionReader, kernel: tuple[str, Direction], choice: OtherChoice
    ) -> None:
        from fx_explorer.instruments.decisions.trial import try_choice
        from fx_explorer.trials import folder_of_trials
        from fx_explorer.tui.dialogs.running import OF_ANOTHER_CHOICE, MeasuringScreen

        request = reader.request()
        if request is None:
            self._services.notify(NO_REQUEST, title="not tried", severity="warning")
            return
        if not await self._services.user_agrees_to_run():
            return
        worker = self._services.worker_of_trials

        async def compile_again(request: CaptureRequest, tell: Told) -> VariantTrial:
            folder = folder_of_trials()
            try_it = self.try_choice or try_choice
            return await try_it(request, kernel, choice, worker, tell=tell, folder=folder)

        trial = await ask(self.app, MeasuringScreen(request, compile_again, OF_ANOTHER_CHOICE))
        if trial is None:
            return
        if trial.refused or trial.session is None:
            self._say_same(choice, trial.refused)
            return
        await self._show_variant(trial)

    async def _show_variant(self, trial: VariantTrial) -> None:
        """Show both compilations of a trial's session side by side."""
        from fx_explorer.instruments.diff.screen import CompareScreen  # few try

        assert trial.session is not None
        with SessionReader(trial.session) as both:
            rows = {row.name: row for row in both.rows(Compilation)}
            original, variant = rows[trial.original], rows[trial.variant]
            keymap = self._services.explorer.keymap
            await ask(self.app, CompareScreen(both, original, variant, keymap))

    def _say_same(self, choice: OtherChoice, why: str) -> None:
        self._services.notify(why, title=f"Tried {choice.words}", severity="warning", timeout=20)

    def _compile_and_compare(self, without: Without) -> None:
        """Compile the variant, and show it beside the compilation from which it begins."""
        start = without.start
        command = Command(
            "again",
            gate=start.gate,
            compilation=start.compilation,
            changes=Changes(without.settings),
        )
        self._send_and_compare(command, f"compiling {without.words}", without.had)

    def _send_and_compare(
        self,
        command: Command,
        doing: str,
        left_had: Mapping[str, object] | None = None,
        refuse: Callable[[SessionReader, Compilation, Compilation], bool] | None = None,
        begins_at: Stage | None = None,
    ) -> None:
        """Have a variant compiled, and show it beside the one that it begins from, which had other
        values of the options in ``left_had``. The comparison ``begins_at`` the document of a stage.
        ``refuse`` is called with both before, and returns whether there is nothing to compare.
        """

        async def compare() -> None:
            from fx_explorer.instruments.diff.screen import CompareScreen  # not for the first paint

            reader = self._services.stepped_session
            if reader:
                rows = {row.name: row for row in reader.rows(Compilation)}
            else:
                rows = {}
            root = root_name(command.compilation)
            new = [name for name in rows if name not in known and root_name(name) == root]
            if reader and new:
                keymap = self._services.explorer.keymap
                original, variant = rows[command.compilation], rows[new[-1]]
                if refuse and refuse(reader, original, variant):
                    return
                screen = CompareScreen(
                    reader, original, variant, keymap, left_had=left_had, begins_at=begins_at
                )
                await self.app.push_screen(screen)

        reader = self._services.stepped_session
        if reader:
            known = {row.name for row in reader.rows(Compilation)}
        else:
            known = set()
        self._stepping.send_then(command, doing, compare)

    async def _choose_start(self, title: str, waiting: Waiting) -> VariantStart | None:
        """Ask where to set out from."""
        choices = [Choice(start.words, start.redone, start) for start in self._starts(waiting)]
        if choices:
            return await ask(self.app, Chooser(_only(title, waiting), matching(choices)))
        return None

    def _starts(self, waiting: Waiting) -> list[VariantStart]:
        """Return the stages from which a variant can begin; if there is none, tell the user. At a
        gate, only the waiting compilation can begin one.
        """
        from fx_explorer.analysis.other_variants import (
            variant_starts,  # not needed for the first paint
        )

        reader = self._services.stepped_session
        starts = variant_starts(reader, waiting.compilation) if reader else []
        if not starts:
            self._services.notify("Nothing has been compiled yet, so no variant can start from it.")
        return starts

    @conversation("mark region", "mark the selection as a region")
    async def mark_region(self) -> None:
        """Ask which part of the selection to mark and for its name, and mark it as a region."""
        waiting = self._stepping.at_rest()
        if waiting is None:
            return
        markables = self._markable_selection()
        if not markables:
            self._services.notify(
                "Nothing to mark: go to a node, or to a line of your source that Dynamo "
                "made nodes of."
            )
            return
        chosen = markables[0]
        if len(markables) > 1:
            choices = [Choice(markable.words, markable.detail, markable) for markable in markables]
            picked = await ask(self.app, Chooser("Mark as a region", matching(choices)))
            if picked is None:
                return
            chosen = picked
        name = await ask(
            self.app, Ask(f"Name of the region ({chosen.words})", chosen.suggestion, verb="marks")
        )
        if name:
            await self._mark(waiting, chosen.compilation, chosen.named(name))

    def show_marks(self) -> None:
        """Show the marks as an edit of the source. This works on a saved session too: it does not
        use the compiler.
        """
        from fx_explorer.analysis.hand_marks import (  # not needed for the first paint, all of it
            hand_marks,
            source_edit,
        )
        from fx_explorer.tui.screens.source_edit import SourceEditScreen

        reader = self._services.stepped_session
        if reader:
            live = self._services.captures.live
            own_marks = live.marks if live else ()
            marks = hand_marks(reader, own_marks)
        else:
            marks = []
        if reader is None or not marks:
            self._services.notify(NOTHING_MARKED)
            return
        folder = Path.cwd()
        edit = source_edit(reader, marks, folder)
        if edit.files and not any(Path(file).is_relative_to(folder) for file in edit.files):
            folder = Path(edit.files[0]).parent
        self.app.push_screen(SourceEditScreen(edit, folder, self._services.explorer.keymap))

    async def _mark(self, waiting: Waiting, compilation: str, mark: Mark) -> None:
        """Put the mark on the graph that waits at Dynamo's gate; elsewhere another variant begins
        there.
        """
        marked = Changes(marks=(mark,))
        if waiting.gate == "dynamo" and waiting.compilation in ("", compilation):
            self._stepping.send(Command("mark", changes=marked), f"marking {mark.name}")
            return
        from fx_explorer.analysis.other_variants import (
            VariantStart,  # not needed for the first paint
        )

        start = VariantStart(compilation, "dynamo")
        changes = await self._choose_changes(
            f"Compile [{compilation}] again with {mark.name}", start
        )
        if changes is not None:
            self._compile_variant(start, changes.plus(marked))

    def _markable_selection(self) -> list[Markable]:
        from fx_explorer.analysis.hand_marks import markables  # not for the first paint

        reader, place = self._services.explorer.reader, self._services.explorer.place
        if reader is None or place is None:
            return []
        return markables(
            reader, place.document, self._services.explorer.cursor.selected_lines or [place.line]
        )

    def _compile_variant(self, start: VariantStart, changes: Changes) -> None:
        command = Command(
            "again",
            gate=start.gate,
            compilation=start.compilation,
            region=start.region,
            changes=changes,
        )
        self._stepping.send(command, f"compiling {start.words}")
