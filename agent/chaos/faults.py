"""The list of faults that need no server of the experiment's own, and of those that do."""

from functools import partial

from agent.chaos import agent_faults as agents
from agent.chaos import log_faults as logs
from agent.chaos import record_faults as records
from agent.chaos import service_faults as services
from agent.chaos.fault import Fault
from connectors.failpoints import POINTS, RAISING

__all__ = ["FAULTS", "Fault"]

_AGENTS = (
    Fault("agent-kill", "kill -9 of an agent", "experiment", agents.kill_agent),
    Fault("all-agents-kill", "kill -9 of all agents, none runs for some seconds", "experiment", agents.kill_all_agents),
    *(
        Fault(
            agents.failpoint_name(point),
            f"an agent kills itself {point.replace('_', ' ')}",
            "experiment",
            partial(agents.kill_at_failpoint, point),
        )
        for point in POINTS
    ),
    *(
        Fault(
            agents.raising_name(point),
            f"an exception that no code expects, {point.replace('_', ' ')}",
            "experiment",
            partial(agents.raise_inside, point),
        )
        for point in RAISING
    ),
    Fault("agent-stop", "SIGTERM of an agent", "experiment", agents.stop_agent),
    Fault("agent-pause", "SIGSTOP of an agent, shorter than the member time-out", "experiment", agents.pause_briefly),
    Fault("rebalance", "a further agent joins, then leaves", "experiment", agents.rebalance),
    Fault("two-joins", "two further agents join at once; one dies, one leaves", "experiment", agents.join_two),
    Fault("stop-in-rebalance", "SIGTERM of an owner while another joins", "experiment", agents.stop_in_rebalance),
    Fault(
        "zombie", "SIGSTOP of an owner until it is replaced, then SIGCONT", "experiment", agents.pause_owner, agents=2
    ),
)
_RECORDS = (
    Fault(
        "poison-records", "records that no decoder likes, of six forms at a time", "experiment", records.write_poison
    ),
    Fault("poison-large", "3 MB that are 3 kB on the wire", "experiment", records.write_large),
    Fault("poison-header", "a header whose name is not UTF-8", "experiment", records.write_header),
    Fault("clock-jump", "an asset's clock is wrong by hours to years for a moment", "experiment", records.jump_clock),
    Fault("aborted-transaction", "records that were never committed", "experiment", records.abort_transaction),
    Fault("partition-increase", "the topic gets a partition; all agents die", "experiment", records.grow_topic),
)
_LOGS = (
    Fault("log-replaced", "the topic is made again under the agents", "experiment", logs.replace_log_running, True),
    Fault(
        "log-replaced-stopped", "the topic is made again, no agent runs", "experiment", logs.replace_log_stopped, True
    ),
    Fault("retention", "records vanish that nobody has read", "experiment", logs.overtake, True),
    Fault("offsets-forwards", "an operator skips records", "experiment", logs.skip_by_operator, True),
)
_SERVICES = (
    Fault("redis-flush", "every key of the experiment is deleted", "experiment", services.delete_keys),
    Fault(
        "redis-flush-agents-kill",
        "every key is deleted while no agent runs",
        "experiment",
        services.delete_keys_without_agents,
    ),
    Fault(
        "redis-flush-then-kill",
        "every key is deleted; within seconds all agents die",
        "experiment",
        services.delete_keys_then_kill,
    ),
    Fault(
        "sink-refuses",
        "the events topic rejects every message",
        "experiment",
        partial(services.reject_output, "events", "sink-refuses"),
    ),
    Fault(
        "states-refuse",
        "the states topic rejects every message",
        "experiment",
        partial(services.reject_output, "states", "states-refuse"),
    ),
    Fault(
        "letters-refuse",
        "the dead-letter topic rejects every message",
        "experiment",
        partial(services.reject_output, "dead_letters", "letters-refuse"),
    ),
    Fault("redis-full", "Redis has no memory left", "server", services.fill_redis),
    Fault("redis-disk-full", "Redis cannot write its snapshot and refuses writes", "server", services.fail_to_persist),
    Fault("redis-slow", "Redis replies after seconds", "server", services.delay_redis),
    Fault("redis-disconnect", "Redis closes all connections", "server", services.disconnect_redis),
    Fault("redis-readonly", "Redis is demoted for some seconds", "server", services.demote_redis),
    Fault("redis-restart", "Redis is stopped and started", "process", services.restart_redis),
    Fault("redis-kill", "kill -9 of Redis", "process", services.kill_redis),
    Fault("broker-restart", "the broker is stopped and started", "process", services.restart_broker),
    Fault("broker-kill", "kill -9 of the broker", "process", services.kill_broker),
)

FAULTS = {fault.name: fault for fault in (*_AGENTS, *_RECORDS, *_LOGS, *_SERVICES)}
