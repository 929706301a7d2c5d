"""This module runs torch's bytecode debugger with a recorder in place of its prompt.

Hook: ``_DebugContext`` (torch/_dynamo/bytecode_debugger.py), which hears of each instruction of
code that Dynamo made, by ``sys.settrace`` or, from Python 3.12 on, ``sys.monitoring``. To import
this raises MissingInTorch where torch has none.
"""

from __future__ import annotations

import sys
import types
from typing import Any

from fx_explorer.capture.dynamo.step_recorder import StepRecorder
from fx_explorer.capture.recording.dynamo_code import CodeSet
from fx_explorer.capture.torch_compat.versions import require

_DebugContext: Any = require("torch._dynamo.bytecode_debugger", "_DebugContext")


class BytecodeDebugger(_DebugContext):
    """Hands every instruction that torch's bytecode debugger meets to a ``StepRecorder`` instead of
    a prompt.
    """

    def __init__(self, recorder: StepRecorder) -> None:
        super().__init__()
        self._recorder = recorder
        self._tracked_codes = CodeSet()  # torch's set ends the process at code that has no hash

    def _get_or_create_code_info(self, code: types.CodeType) -> None:
        """Do nothing. torch's own method prepares for its prompt, and needs a hash."""

    def _handle_instruction(
        self, code: types.CodeType, offset: int, frame: types.FrameType | None = None
    ) -> None:
        frame = frame or self._find_frame_for_code(code)
        if frame is not None:
            self._recorder.instruction(frame, offset)
        if self._recorder.is_over:
            self._let_go()

    def _handle_exception(
        self, code: types.CodeType, offset: int, exception: BaseException
    ) -> None:
        frame = self._find_frame_for_code(code)
        if frame is not None:
            self._recorder.raised(frame, offset, exception)

    def _handle_return(
        self, code: types.CodeType, retval: object, frame: types.FrameType | None = None
    ) -> None:
        frame = frame or self._find_frame_for_code(code)
        if frame is not None:
            self._recorder.left(frame)

    def _let_go(self) -> None:
        """Stop tracing, so that the rest of the program runs at full speed."""
        if hasattr(sys, "monitoring"):
            for code in self._tracked_codes:
                sys.monitoring.set_local_events(self._tool_id, code, 0)
            sys.monitoring.set_events(self._tool_id, 0)
        else:
            sys.settrace(None)

    def _settrace_callback(self, frame: types.FrameType, event: str, arg: object) -> Any:
        """Trace only the code that Dynamo made. torch's own method would trace every line of every
        function.
        """
        if frame.f_code in self._tracked_codes:
            return super()._settrace_callback(frame, event, arg)
        self._recorder.passed(frame.f_code)
        return None

    def _monitoring_instruction_callback(self, code: types.CodeType, offset: int) -> object:
        """Receive each instruction every time it runs. torch's own method receives it once, until
        its prompt asks for more.
        """
        self._handle_instruction(code, offset)
        return None
