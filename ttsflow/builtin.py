"""The parts ttsflow brings itself, registered as any plugin registers its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttsflow.hookspecs import hookimpl

if TYPE_CHECKING:
    from ttsflow.plugins import Registration

__all__ = ["PARTS", "ttsflow_register"]

PARTS: dict[str, dict[str, str]] = {
    "stage": {
        "sequence": "ttsflow.strategies.flow:Sequence",
        "repeat": "ttsflow.strategies.flow:Repeat",
        "when": "ttsflow.strategies.flow:When",
        "each": "ttsflow.strategies.flow:Each",
        "apart": "ttsflow.strategies.apart:Apart",
        "generate": "ttsflow.strategies.generate:GenerateStage",
        "verify": "ttsflow.strategies.verify:Verify",
        "select": "ttsflow.strategies.select:Select",
        "aggregate": "ttsflow.strategies.aggregate:Aggregate",
        "budget_check": "ttsflow.strategies.budget_check:BudgetCheck",
        "round_check": "ttsflow.strategies.round_check:RoundCheck",
        "branch": "ttsflow.strategies.branch:Branch",
        "dedup": "ttsflow.strategies.dedup:Dedup",
        "lookahead": "ttsflow.strategies.lookahead:Lookahead",
        "confidence": "ttsflow.strategies.confidence:Confidence",
        "probe": "ttsflow.strategies.probe:Probe",
        "recipe": "ttsflow.strategies.recipe:Recipe",
        "auto": "ttsflow.strategies.auto:Auto",
        "ladder": "ttsflow.strategies.ladder:Ladder",
        "allocate": "ttsflow.strategies.allocate:Allocate",
    },
    "watch": {
        "first_finished": "ttsflow.strategies.watches:FirstFinished",
        "last_finished": "ttsflow.strategies.watches:LastFinished",
        "low_confidence": "ttsflow.strategies.confidence:LowConfidence",
        "repetition": "ttsflow.strategies.repetition:Repetition",
    },
    "predictor": {"thinking_ended": "ttsflow.strategies.watches:ThinkingEnded"},
    "until": {
        "all_finished": "ttsflow.strategies.until:AllFinished",
        "agreed": "ttsflow.strategies.until:Agreed",
        "consistent": "ttsflow.strategies.stability:Consistent",
        "window_agreed": "ttsflow.strategies.stability:WindowAgreed",
        "best_finished": "ttsflow.strategies.until:BestFinished",
        "finished": "ttsflow.strategies.until:Finished",
        "pool_size": "ttsflow.strategies.until:PoolSize",
        "stopped": "ttsflow.strategies.until:Stopped",
        "any_of": "ttsflow.strategies.until:AnyOf",
        "all_of": "ttsflow.strategies.until:AllOf",
        "not": "ttsflow.strategies.until:Not",
    },
    "engine": {
        "vllm": "ttsflow.engines.vllm:VLLM",
        "replay": "ttsflow.engines.replay:Replay",
        "sim": "ttsflow.engines.sim:Sim",
        "fake": "ttsflow.testing:FakeEnginePart",
    },
    "paths": {
        "law": "ttsflow.engines.law:Law",
        "recorded": "ttsflow.engines.recorded_samples:RecordedSamples",
        "trace": "ttsflow.engines.traced:Traced",
    },
    "verifier": {
        "equations": "ttsflow.verifiers.equations:Equations",
        "countdown": "ttsflow.verifiers.countdown:CountdownSteps",
        "recorded": "ttsflow.verifiers.recorded:Recorded",
        "constant": "ttsflow.verifiers.constant:Constant",
        "random": "ttsflow.verifiers.constant:RandomScore",
        "confidence": "ttsflow.verifiers.confidence:ConfidenceScore",
        "answer": "ttsflow.verifiers.answer:GoldAnswer",
        "prm": "ttsflow.verifiers.prm:PRM",
        "orm": "ttsflow.verifiers.orm:ORM",
        "judge": "ttsflow.verifiers.judge:Judge",
        "tests": "ttsflow.verifiers.tests:CodeTests",
        "ensemble": "ttsflow.verifiers.ensemble:Ensemble",
        "simulated": "ttsflow.verifiers.simulated:Simulated",
        "fake": "ttsflow.testing:FakeVerifierPart",
    },
    "task": {
        "arithmetic": "ttsflow.tasks.arithmetic:Arithmetic",
        "countdown": "ttsflow.tasks.countdown:Countdown",
        "reasoning_gym": "ttsflow.tasks.reasoning_gym:ReasoningGym",
        "code": "ttsflow.tasks.code:Code",
        "jsonl": "ttsflow.tasks.jsonl:Jsonl",
        "plain": "ttsflow.tasks.plain:Plain",
        "recorded": "ttsflow.tasks.recorded:Recorded",
        "simulated": "ttsflow.tasks.simulated:SimulatedTask",
    },
    "load": {
        "none": "ttsflow.load.idle:NoLoad",
        "cpu": "ttsflow.load.cpu:CPULoad",
        "nvml": "ttsflow.load.gpu:NVMLLoad",
        "queue": "ttsflow.load.queued:QueueLoad",
        "trace": "ttsflow.load.written:TraceLoad",
    },
    "controller": {
        "calibrated": "ttsflow.controllers.calibrated:Calibrated",
        "online": "ttsflow.controllers.online:Online",
        "reserve": "ttsflow.controllers.reserve:Reserve",
        "shares": "ttsflow.controllers.shares:Shares",
    },
    "cost": {
        "tokens": "ttsflow.costs.basic:Tokens",
        "seconds": "ttsflow.costs.basic:Seconds",
        "requests": "ttsflow.costs.basic:Requests",
        "joules": "ttsflow.costs.prices:Joules",
        "money": "ttsflow.costs.prices:Money",
        "flops": "ttsflow.costs.work:Flops",
        "roofline": "ttsflow.costs.work:RooflineSeconds",
        "by_engine": "ttsflow.costs.by_engine:ByEngine",
    },
    "meter": {
        "none": "ttsflow.meters.plain:NoMeter",
        "nvml": "ttsflow.meters.nvml:NVML",
        "power": "ttsflow.meters.power:Power",
        "rapl": "ttsflow.meters.rapl:RAPL",
        "model": "ttsflow.meters.model:PowerModel",
    },
    "logger": {
        "none": "ttsflow.loggers.plain:NoLogger",
        "mlflow": "ttsflow.loggers.mlflow:MLflow",
        "wandb": "ttsflow.loggers.wandb:WandB",
    },
}


@hookimpl
def ttsflow_register(registry: Registration) -> None:
    """Register every part of this package and its config groups."""
    for kind, parts in PARTS.items():
        for name, target in parts.items():
            registry.add(kind, name, target)
    registry.add_configs("ttsflow.conf")
