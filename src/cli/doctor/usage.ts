// What the monitors of a file use of this machine. Nothing else needs a probe of the doctor, or a fix.
import type { Monitor } from '../../contract/monitor.ts'
import { runsUserCode } from '../../agent/run/run-plan.ts'
import { needsOf } from '../../monitors/definitions.ts'
import { absent, type Finding, type Probe, type Probed } from './finding.ts'

const needs = (pattern: RegExp) => (monitor: Monitor) =>
  needsOf(monitor).some((one) => pattern.test(one))

/** Probes that only some monitors need. */
const USED_BY: Partial<Record<Probed, (monitor: Monitor) => boolean>> = {
  icmp: needs(/^ICMP$/),
  traceroute: needs(/^TRACEROUTE$/),
  sandbox: runsUserCode,
  browser: needs(/^(?:BROWSER|PLAYWRIGHT)$/),
  engines: needs(/^engine:/),
  runtimes: needs(/^runtime:/),
}

/** Tools whose absence is a problem where the file has a monitor that runs on them. */
const TOOLS: ReadonlySet<Probed> = new Set(['engines', 'runtimes'])

/**
 * The probe for these monitors: skipped where none of them uses what it tests. `monitorsOf`: undefined where the
 * monitors are not known, as on a platform.
 */
export function probeForUse(
  { id, run }: Probe,
  monitorsOf: () => Promise<readonly Monitor[] | undefined>,
): Probe {
  const uses = USED_BY[id]
  if (uses === undefined) return { id, run }
  return {
    id,
    async run(signal) {
      const monitors = await monitorsOf()
      if (monitors === undefined) return run(signal)
      if (!monitors.some(uses)) return [absent(id, 'not used by the monitors of the file')]
      const findings = await run(signal)
      return TOOLS.has(id) ? findings.map(needed) : findings
    },
  }
}

function needed(finding: Finding): Finding {
  return finding.standing === 'absent' ? { ...finding, standing: 'broken' } : finding
}
