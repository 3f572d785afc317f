"""For every alert, series with which it fires and series with which it does not, as promtool takes them; one sample a minute."""

from __future__ import annotations

from dataclasses import dataclass

S = 'namespace="stores",pod="shop-cep-0"'
OWN = f'{S},query="q"'
LATENCY = "cep_detection_latency_seconds"


@dataclass(frozen=True, slots=True)
class Case:
    """One alert.

    Attributes:
        fires: series and their values, with which it fires.
        quiet: with which it does not.
        minutes: when both are asked.
    """

    fires: dict[str, str]
    quiet: dict[str, str]
    minutes: int = 30


def counter(step: float, minutes: int = 60) -> str:
    """A counter that grows so much a minute."""
    return f"0+{step}x{minutes}"


def steady(value: float, minutes: int = 60) -> str:
    """A gauge."""
    return f"{value}x{minutes}"


def latencies(in_time: float, late: float, minutes: int) -> dict[str, str]:
    """Composite events per minute of a query with a bound."""
    return {
        f"cep_late_composite_events_total{{{OWN}}}": counter(late, minutes),
        f"{LATENCY}_count{{{OWN}}}": counter(in_time + late, minutes),
    }


def sheds(per_cent: float, seen: float) -> dict[str, str]:
    """A query that shed so many of its events, and what scrapes happened to see: batches of an overload are long and few, those behind it short and many."""
    return {
        f'cep_events_shed_total{{{OWN},shedder="random"}}': counter(per_cent, 120),
        f"cep_candidate_events_total{{{OWN}}}": counter(100, 120),
        f'cep_realised_drop_ratio{{{OWN},shedder="random"}}': steady(seen, 120),
    }


def moved(metric: str, labels: str = S, by: float = 1) -> Case:
    """A counter that moves, and one that stands still."""
    return Case({f"{metric}{{{labels}}}": counter(by)}, {f"{metric}{{{labels}}}": steady(7)})


def above(metric: str, high: float, low: float, labels: str = S, minutes: int = 30) -> Case:
    """A gauge beyond its limit, and one within."""
    return Case({f"{metric}{{{labels}}}": steady(high, 2 * minutes)}, {f"{metric}{{{labels}}}": steady(low, 2 * minutes)}, minutes)


def while_batches_end(case: Case) -> Case:
    """The same in a driver that works: what its last batch said an hour ago is no alert."""
    moves = {f"cep_batches_total{{{S}}}": counter(60, 2 * case.minutes)}
    return Case({**case.fires, **moves}, {**case.quiet, **moves}, case.minutes)


def not_without_input(case: Case) -> Case:
    """It fires, and does not where no batch ends."""
    return Case(while_batches_end(case).fires, {**case.fires, f"cep_batches_total{{{S}}}": steady(900, 2 * case.minutes)}, case.minutes)


UNREACHABLE = above("cep_latency_bound_reachable", 0, 1)
SHEDDING = Case(sheds(31, seen=0), sheds(29, seen=0.9), 60)
LATE_CLOCK = above("cep_watermark_delay_seconds", 601, 599, OWN)
LOW_RECALL = above("cep_shed_recall_estimate_ratio", 0.79, 0.81, f'{OWN},bound="upper"')
TOPIC = f'{S},topic="t",partition="0"'
CASES: dict[str, Case] = {  # by name, some with what is special behind a comma
    "CepDown": Case({f"cep_batches_total{{{S}}}": "1x60"}, {f"cep_leader{{{S}}}": "1x60"}),
    # a process that never commits has no other counter that begins anew
    "CepRestarting": Case(
        {f"process_start_time_seconds{{{S}}}": "100x8 700x8 1200x8 1700x16"},
        {f"process_start_time_seconds{{{S}}}": "100x20 1300x20"},
    ),
    # a pod that is made anew has another address
    "CepRestarting, pods made anew": Case(
        {
            f'process_start_time_seconds{{{S},instance="10.0.0.{n}:8080"}}': text
            for n, text in enumerate(("100x8", "_x9 700x8", "_x18 1200x8", "_x27 1700x16"))
        },
        {f'process_start_time_seconds{{{S},instance="10.0.0.{n}:8080"}}': text for n, text in enumerate(("100x20", "_x21 1300x20"))},
    ),
    "CepNoProgress": Case(
        {f"cep_batch_running_seconds{{{S}}}": counter(60), f"cep_consumer_lag_records{{{TOPIC}}}": steady(0)},
        {f"cep_batch_running_seconds{{{S}}}": steady(299), f"cep_consumer_lag_records{{{TOPIC}}}": steady(0)},
    ),
    "CepNoProgress, none begins": Case(
        {f"cep_checkpoint_last_success_timestamp_seconds{{{S}}}": steady(60), f"cep_consumer_lag_records{{{TOPIC}}}": steady(5)},
        {f"cep_checkpoint_last_success_timestamp_seconds{{{S}}}": steady(60), f"cep_consumer_lag_records{{{TOPIC}}}": steady(0)},
    ),
    "CepBatchesStalled": moved("cep_stalled_batches_total"),
    "CepBatchesFailing": Case(
        {f"cep_batch_attempts_failed_total{{{S}}}": counter(1)}, {f"cep_batch_attempts_failed_total{{{S}}}": "0x20 1x40"}
    ),
    "CepAccountsBroken": Case(
        {f'cep_accounting_breaches_total{{{S},account="rows"}}': counter(1), f"cep_events_unaccounted_total{{{S}}}": steady(0)},
        {f'cep_accounting_breaches_total{{{S},account="rows"}}': steady(1), f"cep_events_unaccounted_total{{{S}}}": steady(0)},
    ),
    "CepSnapshotsDamaged": moved("cep_damaged_snapshots_total"),
    "CepLagGrowing": Case(
        {f"cep_consumer_lag_records{{{TOPIC}}}": counter(900, 120), f"cep_consumer_lag_seconds{{{TOPIC}}}": steady(90, 120)},
        {f"cep_consumer_lag_records{{{TOPIC}}}": steady(90000, 120), f"cep_consumer_lag_seconds{{{TOPIC}}}": steady(90, 120)},
        60,
    ),
    "CepLagHigh": above("cep_consumer_lag_seconds", 301, 299, TOPIC),
    "CepWatermarkStalled": while_batches_end(LATE_CLOCK),
    "CepWatermarkStalled, input gone": not_without_input(LATE_CLOCK),
    "CepHeartbeatsFailing": Case(
        {f"cep_heartbeat_errors_total{{{S}}}": counter(1)}, {f"cep_heartbeat_errors_total{{{S}}}": "0x20 1x20 2x20"}
    ),
    # 20 % late is 20 times the budget of 1 %; 5 % is less than 6 times
    "CepLatencySLOBurnFast": Case(latencies(8, 2, 120), latencies(9.5, 0.5, 120), 90),
    # five an hour are evidence in six hours, three are not
    "CepLatencySLOBurnFast, few": Case(latencies(0, 1 / 12, 420), latencies(0, 1 / 20, 420), 400),
    # and more than 3 times; rates over days are those of the hours that there are
    "CepLatencySLOBurnSlow": Case(latencies(9.5, 0.5, 300), latencies(9.95, 0.05, 300), 270),
    "CepBoundUnreachable": while_batches_end(UNREACHABLE),
    "CepBoundUnreachable, input gone": not_without_input(UNREACHABLE),
    "CepSheddingSustained": while_batches_end(SHEDDING),
    "CepSheddingSustained, partial matches": while_batches_end(above("cep_realised_drop_ratio", 0.31, 0.29, f'{OWN},shedder="pspice"', 60)),
    "CepSheddingSustained, input gone": not_without_input(SHEDDING),
    "CepRecallLow": while_batches_end(LOW_RECALL),
    "CepRecallLow, input gone": not_without_input(LOW_RECALL),
    "CepLearningFailing": Case(
        {f'cep_learning_total{{{OWN},outcome="failed"}}': counter(1)},
        {f'cep_learning_total{{{OWN},outcome="taken"}}': counter(1), f'cep_learning_total{{{OWN},outcome="failed"}}': steady(3)},
    ),
    "CepDeadLetterRateHigh": Case(
        {f'cep_dead_letters_total{{{S},reason="schema"}}': counter(2), f'cep_events_consumed_total{{{S},topic="t"}}': counter(100)},
        {f'cep_dead_letters_total{{{S},reason="schema"}}': counter(0.5), f'cep_events_consumed_total{{{S},topic="t"}}': counter(100)},
    ),
    "CepStateGrowth": Case(
        {f"cep_state_bytes{{{S}}}": "1e9x1000 3e9x1000"}, {f"cep_state_bytes{{{S}}}": "2e9x1000 3e9x1000"}, 24 * 60 + 60
    ),
    "CepStateGrowth, a pod made anew": Case(
        {f'cep_state_bytes{{{S},instance="a"}}': "1e9x1000", f'cep_state_bytes{{{S},instance="b"}}': "_x1001 3e9x1000"},
        {f'cep_state_bytes{{{S},instance="a"}}': "2e9x1000", f'cep_state_bytes{{{S},instance="b"}}': "_x1001 3e9x1000"},
        24 * 60 + 60,
    ),
    "CepPartialMatchesLimited": moved("cep_limited_total", f'{OWN},limit="state_bytes"'),
    "CepExecutorsMissing": above("cep_owners", 2, 3),
    "CepSchemaRegistryErrors": above("cep_schema_registry_waiting_seconds", 31, 0),
    "CepConfigReloadFailed": above("cep_config_reload_success", 0, 1),
}
