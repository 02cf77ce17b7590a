// Tells the platform how far runs are, beside the sync that is held: at most once a second, the newest words
// alone. A word that gets lost is followed by the next one.
import type { AgentFacts } from '../../contract/protocol/agent-protocol.ts'
import type { PlatformLink } from '../platform/link.ts'
import type { ProgressBoard } from './progress-board.ts'

/** What it takes to tell. */
export interface ProgressTelling {
  link: Pick<PlatformLink, 'request'>
  facts: () => Pick<AgentFacts, 'id' | 'instance'>
  board: Pick<ProgressBoard, 'newest' | 'onTold'>
}

/** What is said within this time is said at once. */
const FIRST_MS = 100
const APART_MS = 1_000
const CALL_MS = 10_000

/** Begins to tell; ends when what is returned is called. Never throws. */
export function startProgressTelling({ link, facts, board }: ProgressTelling): () => void {
  const ended = new AbortController()
  let timer: NodeJS.Timeout | undefined
  let saidAtMs = Number.NEGATIVE_INFINITY
  let isCalling = false
  let isNews = false

  const soon = () => {
    isNews = true
    if (timer !== undefined || isCalling || ended.signal.aborted) return
    const waitMs = Math.max(FIRST_MS, APART_MS - (performance.now() - saidAtMs))
    timer = setTimeout(() => void say(), waitMs)
  }
  const say = async () => {
    timer = undefined
    isNews = false
    const progress = board.newest()
    if (progress.length === 0) return
    const { id: agentId, instance } = facts()
    saidAtMs = performance.now()
    isCalling = true
    const called = link.request({
      method: 'POST',
      path: '/agent/v1/presence',
      headers: { 'content-type': 'application/json' },
      body: Buffer.from(JSON.stringify({ agentId, instance, progress })),
      deadlineMs: CALL_MS,
      signal: ended.signal,
    })
    // Whatever is wrong, syncs will tell.
    await called.catch(() => undefined)
    isCalling = false
    if (isNews) soon()
  }
  board.onTold(soon)
  return () => {
    clearTimeout(timer)
    ended.abort()
  }
}
