"""A folder that tlparse wrote, which is what PyTorch's form for issues asks for: the log that it
was made from is in it (``raw.log``), or can be put together from ``raw.jsonl`` and the files of the
payloads.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from fx_explorer.errors import SessionError

RAW_LOG, RAW_RECORDS = "raw.log", "raw.jsonl"

_BESIDE = ("index.html", "compile_directory.json", "failures_and_restarts.html")
"""Files that tlparse writes too; one of them tells the folder from another with a ``raw.log``."""

MOST_OF_A_PAYLOAD = 64 << 20

_ADDED = (
    "timestamp", "thread", "pathname", "lineno", "payload_filename", "process",
)  # fmt: skip
"""Keys that tlparse adds to a record of torch's: they stand before its JSON in a log."""

_CODE_BEGINS, _TAG = re.compile(r"<pre[^<>]{0,500}>\n?"), re.compile(r"<[^<>]{0,500}>")


def is_tlparse_folder(folder: Path) -> bool:
    """Return whether tlparse wrote into a folder."""
    if not folder.is_dir():
        return False
    has_log = (folder / RAW_LOG).is_file() or (folder / RAW_RECORDS).is_file()
    return has_log and any((folder / name).is_file() for name in _BESIDE)


def tlparse_folders(folder: Path) -> list[Path]:
    """Return the folders of tlparse's at a folder or below it: of a job, one for each rank."""
    if is_tlparse_folder(folder):
        return [folder]
    found: list[Path] = []
    for name in (RAW_LOG, RAW_RECORDS):
        found += [path.parent for path in folder.rglob(name) if is_tlparse_folder(path.parent)]
    return sorted(set(found))


def files_of_logs(names: Sequence[str]) -> set[str] | None:
    """Return the names in an archive that are needed of folders of tlparse's with their logs: of
    thousands of files a few. None where it has no such folder, or one without its log, so that all
    are needed.
    """
    found = {PurePosixPath(name) for name in names}
    needed: set[str] = set()
    for path in found:
        beside = [path.with_name(name) for name in _BESIDE]
        is_without_log = path.name == RAW_RECORDS and path.with_name(RAW_LOG) not in found
        if is_without_log:
            return None
        if path.name == RAW_LOG and not found.isdisjoint(beside):
            needed.update(str(other) for other in (path, *beside) if other in found)
    return needed or None


def log_of(folder: Path, made: Path) -> Path:
    """Return the log of a folder of tlparse's; where it is missing, ``made`` is written. Raises
    SessionError where no record can be read.
    """
    if (folder / RAW_LOG).is_file():
        return folder / RAW_LOG
    count = 0
    with made.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        for record in _records(folder / RAW_RECORDS):
            file.write(_in_log(folder, record))
            count += 1
    if not count:
        raise SessionError(
            f"{folder / RAW_RECORDS} has no torch records. Give the log that tlparse read"
        )
    return made


def _records(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records, with the file names that tlparse put into a table of their own."""
    names: list[str] = []
    with path.open("rb") as file:
        for line in file:
            try:
                record = json.loads(line)
            except ValueError:
                continue  # the last line of a file that was cut off
            if not isinstance(record, dict):
                continue
            if "string_table" in record:
                names = [str(name) for name in record["string_table"]]
                continue
            yield _with_names(record, names)


def _with_names(value: Any, names: list[str]) -> Any:
    """Return a record with the names of files in stacks in place of their numbers."""
    if isinstance(value, list):
        return [_with_names(item, names) for item in value]
    if not isinstance(value, dict):
        return value
    named = {key: _with_names(item, names) for key, item in value.items()}
    number = named.get("filename")
    if isinstance(number, int) and 0 <= number < len(names):
        named["filename"] = names[number]
    return named


def _in_log(folder: Path, record: dict[str, Any]) -> str:
    """Return a record as torch writes it to a log."""
    text = _payload(folder, record)
    fields = {key: value for key, value in record.items() if key not in _ADDED}
    if text is None:
        fields.pop("has_payload", None)
    else:
        digest = hashlib.md5(text.encode("utf-8", "surrogateescape"), usedforsecurity=False)
        fields["has_payload"] = digest.hexdigest()
    head = f"{_stamp(record)} {record.get('thread', 0)} {_place(record)}] {json.dumps(fields)}\n"
    if text is None:
        return head
    return head + "".join(f"\t{line}\n" for line in text.split("\n"))


def _stamp(record: dict[str, Any]) -> str:
    """Return ``V1121 03:13:51.641000`` of ``2026-11-21T03:13:51.641000Z``."""
    matched = re.match(
        r"\d{4}-(\d\d)-(\d\d)T(\d\d:\d\d:\d\d(?:\.\d+)?)", str(record.get("timestamp"))
    )
    month, day, time = matched.groups() if matched else ("01", "01", "00:00:00.000000")
    return f"V{month}{day} {time}"


def _place(record: dict[str, Any]) -> str:
    return f"{str(record.get('pathname', '')).strip()}:{record.get('lineno', 0)}"


def _payload(folder: Path, record: dict[str, Any]) -> str | None:
    """Return the text of a record; None where the folder does not have it. Output code is kept as a
    page, beside which the text itself may stand under its hash.
    """
    names = [f"payloads/{record.get('has_payload')}.txt", str(record.get("payload_filename") or "")]
    for name in names:
        path = folder / name
        is_inside = ".." not in Path(name).parts and not Path(name).is_absolute()
        if name and is_inside and path.is_file() and path.stat().st_size <= MOST_OF_A_PAYLOAD:
            text = path.read_bytes().decode("utf-8", "surrogateescape")
            return _without_page(text) if path.suffix == ".html" else text
    return None


def _without_page(page: str) -> str:
    """Return the code of a page that tlparse coloured."""
    begin = _CODE_BEGINS.search(page)
    body = page[begin.end() :] if begin else page
    return html.unescape(_TAG.sub("", body.partition("</pre>")[0]))
