// Says beside a sync that takes long, as the answer with all monitors does on a slow line, that the agent is
// there: otherwise it would be given up for lost in the middle of it. Only what the agent itself sends counts,
// so that a line that is dead keeps nobody alive.
import type { SyncRequest } from '../../contract/protocol/agent-protocol.ts'
import type { PlatformLink } from './link.ts'

/** From one to the next; three fit into the silence after which an agent counts as lost. */
const BEAT_MS = 8_000
/** After the platform's hold, when its answer is due. */
const AFTER_HOLD_MS = 2_000

/** Begins to say so, some seconds from now; ends when what is returned is called. Never throws. */
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
    // Whatever is wrong, the sync itself will tell.
    asked.catch(() => undefined)
  }
  let timer = setTimeout(beat, Math.max(BEAT_MS, waitMs + AFTER_HOLD_MS))
  return () => {
    clearTimeout(timer)
    ended.abort()
  }
}
