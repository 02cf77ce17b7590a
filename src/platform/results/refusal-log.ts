// Logs refused results, rate-limited so that a misbehaving agent cannot fill the log.
import type { ResultsAnswer } from '../../contract/protocol/agent-protocol.ts'
import type { Log } from '../../process/log.ts'

/** At most one line in this time for each agent and code. */
const QUIET_MS = 60_000
/** Agents and codes that are remembered; beyond, all are forgotten and may speak again. */
const REMEMBERED_MAX = 10_000

/** Sender of a refused result. */
export interface RefusedOf {
  locationId: string
  agentId: string
}

/** Logs refusals of one batch. */
export type LogRefusals = (of: RefusedOf, refused: ResultsAnswer['refused']) => void

/** Makes the log of refusals; `now` in milliseconds. */
export function createRefusalLog(
  log: Pick<Log, 'warn'>,
  now = () => performance.now(),
): LogRefusals {
  const logged = new Map<string, { at: number; since: number }>()
  return ({ locationId, agentId }, refused) => {
    for (const [code, some] of Map.groupBy(refused, (one) => one.code)) {
      const key = `${locationId} ${agentId} ${code}`
      const before = logged.get(key)
      const isQuiet = before !== undefined && now() - before.at < QUIET_MS
      const since = (before?.since ?? 0) + some.length
      if (!isQuiet && logged.size >= REMEMBERED_MAX) logged.clear()
      logged.set(key, isQuiet ? { at: before.at, since } : { at: now(), since: 0 })
      if (isQuiet) continue
      const message = some[0]?.message ?? ''
      log.warn({ locationId, agentId, code, count: since, message }, 'results were refused')
    }
  }
}
