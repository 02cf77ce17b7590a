// Sends heartbeats during a long sync, such as an answer with all monitors on a slow line: otherwise the agent
// would count as lost in the middle of it. Only requests of the agent count, so that a dead line keeps no agent
// alive.
import type { SyncRequest } from '../../contract/protocol/agent-protocol.ts'
import type { PlatformLink } from './link.ts'

/** From one to the next; three fit into the heartbeat timeout of the platform. */
const BEAT_MS = 8_000
/** After the platform's hold, when its answer is due. */
const AFTER_HOLD_MS = 2_000

/** Starts after some seconds; the returned function ends it. Never throws. */
export function startPresenceBeats(
  link: PlatformLink,
  { agent: { id, instance }, waitMs }: Pick<SyncRequest, 'agent' | 'waitMs'>,
): () => void {
  const ended = new AbortController()
  const body = Buffer.from(JSON.stringify({ agentId: id, instance }))
  const beat = () => {
    timer = setTimeout(beat, BEAT_MS)
    const asked = link.request({
      method: 'POST',
      path: '/agent/v1/presence',
      headers: { 'content-type': 'application/json' },
      body,
      deadlineMs: BEAT_MS,
      signal: ended.signal,
    })
    // The sync itself reports the problem.
    asked.catch(() => undefined)
  }
  let timer = setTimeout(beat, Math.max(BEAT_MS, waitMs + AFTER_HOLD_MS))
  return () => {
    clearTimeout(timer)
    ended.abort()
  }
}
