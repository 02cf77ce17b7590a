// The monitors that the platform assigned to this agent. Changes apply as a whole or not at all; only changed
// definitions are read, in slices, so that checking ten thousand does not block the event loop.
import { hash } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Instant } from '../../../contract/job.ts'
import type { Monitor } from '../../../contract/monitor.ts'
import { LIMITS } from '../../../contract/versions.ts'
import type { Assignment } from '../../source.ts'
import { MalformedAnswerError, monitorOf, readEntry, type ReadChanges } from './answer.ts'

export interface AssignedMonitor extends Assignment {
  monitor: Monitor
  /** Shows whether a definition that comes again is the same. */
  digest: string
}

/** An ended assignment stays for so long after its last slot: a run of it may still wait. */
const RETAIN_ENDED_MS = 60_000

/** Empty at first. */
export class AssignedMonitors {
  /** By the monitor's id; a new map after each change. */
  all: ReadonlyMap<string, AssignedMonitor> = new Map()

  /** Applies the changes; throws MalformedAnswerError, then nothing has changed. One call at a time. */
  async apply(
    { whole, set, drop }: Pick<ReadChanges, 'whole' | 'set' | 'drop'>,
    now: Instant,
  ): Promise<void> {
    const current = this.all
    const next = new Map(whole ? [] : current)
    for (const { monitorId, until } of drop) {
      const known = current.get(monitorId)
      if (known !== undefined) next.set(monitorId, { ...known, until })
    }
    await inSlices(set, (entry) => {
      const { monitor: definition, ...assigned } = readEntry(entry)
      const digest = hash('sha1', JSON.stringify(definition), 'base64')
      const known = current.get(definition.id)
      const monitor = known?.digest === digest ? known.monitor : monitorOf(definition)
      next.set(definition.id, { ...assigned, monitor, digest })
    })
    for (const [id, { until = Number.POSITIVE_INFINITY }] of next) {
      if (until + RETAIN_ENDED_MS < now) next.delete(id)
    }
    if (next.size > LIMITS.monitorsMax) {
      throw new MalformedAnswerError(`more than ${LIMITS.monitorsMax} monitors`)
    }
    this.all = next
  }
}

/** How long one slice may block the event loop. */
const SLICE_MS = 10

/** Processes each, and yields to the event loop in between. */
async function inSlices<T>(all: Iterable<T>, each: (one: T) => void): Promise<void> {
  let endsAtMs = performance.now() + SLICE_MS
  for (const one of all) {
    each(one)
    if (performance.now() < endsAtMs) continue
    await nextTurn()
    endsAtMs = performance.now() + SLICE_MS
  }
}
