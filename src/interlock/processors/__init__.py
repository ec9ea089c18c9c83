"""Processors: hooks, their arguments and results, and the pipeline that runs them."""

from interlock.processors.args import (
    FlushOutputStreamArgs,
    HookArgs,
    ProcessAPIErrorArgs,
    ProcessInputArgs,
    ProcessInputStepArgs,
    ProcessLLMRequestArgs,
    ProcessLLMResponseArgs,
    ProcessOutputResultArgs,
    ProcessOutputStepArgs,
    ProcessOutputStreamArgs,
    ProcessToolResultArgs,
)
from interlock.processors.base import (
    ErrorProcessor,
    InputProcessor,
    OutputProcessor,
    Processor,
    ProcessorViolation,
    is_error_processor,
    is_input_processor,
    is_output_processor,
)
from interlock.processors.composition import (
    MapArgs,
    ProcessorStepData,
    Workflow,
    create_step,
    create_workflow,
    parallel,
    sequence,
    when,
)
from interlock.processors.observe import HookEvent, Observer, TracingContext
from interlock.processors.pipeline import Pipeline
from interlock.processors.results import (
    CachedStepChunk,
    CachedStepResponse,
    ProcessAPIErrorResult,
    ProcessInputResult,
    ProcessInputStepResult,
    ProcessLLMRequestResult,
)
from interlock.processors.scope import RunBudget
from interlock.processors.steps import OutputResult, StepResult, ToolCallInfo, TripwireInfo
from interlock.processors.writer import ProcessorStreamWriter

__all__ = [
    "CachedStepChunk",
    "CachedStepResponse",
    "ErrorProcessor",
    "FlushOutputStreamArgs",
    "HookArgs",
    "HookEvent",
    "InputProcessor",
    "MapArgs",
    "Observer",
    "OutputProcessor",
    "OutputResult",
    "Pipeline",
    "ProcessAPIErrorArgs",
    "ProcessAPIErrorResult",
    "ProcessInputArgs",
    "ProcessInputResult",
    "ProcessInputStepArgs",
    "ProcessInputStepResult",
    "ProcessLLMRequestArgs",
    "ProcessLLMRequestResult",
    "ProcessLLMResponseArgs",
    "ProcessOutputResultArgs",
    "ProcessOutputStepArgs",
    "ProcessOutputStreamArgs",
    "ProcessToolResultArgs",
    "Processor",
    "ProcessorStepData",
    "ProcessorStreamWriter",
    "ProcessorViolation",
    "RunBudget",
    "StepResult",
    "ToolCallInfo",
    "TracingContext",
    "TripwireInfo",
    "Workflow",
    "create_step",
    "create_workflow",
    "is_error_processor",
    "is_input_processor",
    "is_output_processor",
    "parallel",
    "sequence",
    "when",
]
