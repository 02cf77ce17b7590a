// TCP monitor: whether the port answers, with the expected data, and how fast.
import { NOT_CONNECTED } from '../../network/connect-errors.ts'
import { tcpDefinition, type TcpMonitor } from './definition.ts'
import { defineMonitor } from '../monitor.ts'
import type { Observation, Sample } from '../../contract/observation.ts'
import { makePlan, type Probe } from './connection.ts'
import { probeTcp } from './probe.ts'
import { checkAddresses, verdictOn } from '../probe.ts'
import { connectionSamples, tlsSamples } from '../metrics.ts'

/** Failures that count as a pass with `shouldFail`; not a missing name, which may be a typing error. */
const EXPECTED_BY_SHOULD_FAIL: ReadonlySet<string> = new Set(NOT_CONNECTED)

/** The TCP type of monitor. */
export const tcp = defineMonitor({
  definition: tcpDefinition,
  prepare(monitor: TcpMonitor) {
    const plan = makePlan(monitor)
    const observe = (probe: Probe) => observationOf(monitor, probe)
    return async (context) => {
      if (!plan.request.allAddresses) {
        return observe(await probeTcp(plan, plan.endpoint, context))
      }
      return checkAddresses<Probe>(plan.endpoint, context, {
        probe: (endpoint, startedAt) => probeTcp(plan, endpoint, context, startedAt),
        observe,
        summary: (probes) =>
          probes.some(({ failedDueToRegex }) => failedDueToRegex) ? { failedDueToRegex: true } : {},
      })
    }
  },
  samples: tcpSamples,
  deadlineMs: (monitor) => monitor.maxResponseTime,
})

function observationOf(monitor: TcpMonitor, probe: Probe): Observation {
  const { failures: _, ...facts } = probe
  const hasAnswered = probe.phases.connectMs !== undefined
  return {
    observed: { port: monitor.request.port, ...facts },
    ...verdictOn(monitor, probe, EXPECTED_BY_SHOULD_FAIL, hasAnswered),
  }
}

/** The samples of one observation, as `observed` of a TCP monitor has it. */
function tcpSamples(observed: Record<string, unknown>): Sample[] {
  const { phases, family, tls, failedDueToRegex } = observed as Partial<Probe>
  return [
    { name: 'probe_failed_due_to_regex', value: failedDueToRegex === true ? 1 : 0 },
    ...connectionSamples({ family, phases }, 'probe_tcp_duration_seconds'),
    ...(tls === undefined ? [] : tlsSamples(tls)),
  ]
}
