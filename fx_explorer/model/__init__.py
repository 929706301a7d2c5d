"""What a compilation is: frozen dataclasses, one per row of the session file. No I/O, standard library only.

Every row has an ``id``. A row that has not been written yet carries ``id=0``; the writer returns the id it was given.
A field called after another row (``compilation``, ``graph``, ``node`` …) holds that row's id; 0 means "none".
"""

from fx_explorer.model.compilation import Artifact, ArtifactKind, Compilation, Status
from fx_explorer.model.cut import Fallback, FallbackKind, LocalTensor, ResumeFunction
from fx_explorer.model.graph import Edge, Frame, Graph, Node, SourceFile, Stack
from fx_explorer.model.kernel import Kernel, KernelCall, KernelLanguage, WithoutKernel
from fx_explorer.model.link import LineNode, LineSource, Link
from fx_explorer.model.observation import (
    ConsoleLine,
    Failure,
    GraphBreak,
    Guard,
    Measured,
    Measurement,
    Metric,
    Recompile,
    SavedTensor,
    Span,
    Symbol,
)
from fx_explorer.model.protocol import CaptureRequest, Command, CommandKind, Notice, NoticeKind, Outcome, OutcomeKind
from fx_explorer.model.stage import DIRECTIONS, STAGES, Direction, Stage
from fx_explorer.model.steering import (
    GATE_STAGES,
    GATE_WORDS,
    GATES,
    GRAPH_GATES,
    Changes,
    Gate,
    Intervention,
    InterventionKind,
    Mark,
    PassFile,
    Pause,
    RegionLowering,
    Setting,
    SettingGroup,
)
from fx_explorer.model.verification import Verification

__all__ = [
    "DIRECTIONS",
    "GATES",
    "GATE_STAGES",
    "GATE_WORDS",
    "GRAPH_GATES",
    "STAGES",
    "Artifact",
    "ArtifactKind",
    "CaptureRequest",
    "Changes",
    "Command",
    "CommandKind",
    "Compilation",
    "ConsoleLine",
    "Direction",
    "Edge",
    "Failure",
    "Fallback",
    "FallbackKind",
    "Frame",
    "Gate",
    "Graph",
    "GraphBreak",
    "Guard",
    "Intervention",
    "InterventionKind",
    "Kernel",
    "KernelCall",
    "KernelLanguage",
    "LineNode",
    "LineSource",
    "Link",
    "LocalTensor",
    "Mark",
    "Measured",
    "Measurement",
    "Metric",
    "Node",
    "Notice",
    "NoticeKind",
    "Outcome",
    "OutcomeKind",
    "PassFile",
    "Pause",
    "Recompile",
    "RegionLowering",
    "ResumeFunction",
    "SavedTensor",
    "Setting",
    "SettingGroup",
    "SourceFile",
    "Span",
    "Stack",
    "Stage",
    "Status",
    "Symbol",
    "Verification",
    "WithoutKernel",
]
