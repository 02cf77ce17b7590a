// The monitors that the platform has given this agent: takes changes, as a whole or not at all, and reads
// only the definitions that have changed, in slices, so that ten thousand hold nothing up.
import { hash } from 'node:crypto'
import type { Instant } from '../../../contract/job.ts'
import type { Monitor } from '../../../contract/monitor.ts'
import { LIMITS } from '../../../contract/versions.ts'
import { inSlices } from '../in-slices.ts'
import type { Assignment } from '../../source.ts'
import { MalformedAnswerError, monitorOf, readEntry, type ReadChanges } from './answer.ts'

/** What an agent holds of one monitor. */
export interface AssignedMonitor extends Assignment {
  monitor: Monitor
  /** Tells whether a definition that comes again is the same. */
  digest: string
}

export interface AssignedMonitors {
  /** Takes the changes; throws MalformedAnswerError, then nothing has changed. One call at a time. */
  take(changes: Pick<ReadChanges, 'whole' | 'set' | 'drop'>, now: Instant): Promise<void>
  monitors(): Monitor[]
  /** By the monitor's id; a new map after each change. */
  assignments(): ReadonlyMap<string, AssignedMonitor>
}

/** What was given up stays for so long after its last slot, since a run of it may still wait. */
const KEEP_ENDED_MS = 60_000

/** Holds nothing at first. */
export function createAssignedMonitors(): AssignedMonitors {
  let held = new Map<string, AssignedMonitor>()
  return {
    async take({ whole, set, drop }, now) {
      const next = new Map(whole ? [] : held)
      for (const { monitorId, until } of drop) {
        const known = held.get(monitorId)
        if (known !== undefined) next.set(monitorId, { ...known, until })
      }
      await inSlices(set, (entry) => {
        const { id, definition, ...assigned } = readEntry(entry)
        const digest = hash('sha1', JSON.stringify(definition), 'base64')
        const known = held.get(id)
        const isSame = known?.digest === digest
        const monitor = isSame ? known.monitor : monitorOf({ ...definition, id })
        next.set(id, { ...assigned, monitor, digest })
      })
      for (const [id, { until = Number.POSITIVE_INFINITY }] of next) {
        if (until + KEEP_ENDED_MS < now) next.delete(id)
      }
      if (next.size > LIMITS.monitorsMax) {
        throw new MalformedAnswerError(`more than ${LIMITS.monitorsMax} monitors`)
      }
      held = next
    },
    monitors: () => [...held.values()].map(({ monitor }) => monitor),
    assignments: () => held,
  }
}
