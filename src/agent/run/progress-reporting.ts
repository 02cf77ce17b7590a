// Progress reporting: sends the newest progress of runs to the platform, alongside the waiting sync, at most once
// a second. A lost report is superseded by the next one.
import type { AgentFacts } from '../../contract/protocol/agent-protocol.ts'
import type { PlatformLink } from '../platform/link.ts'
import type { ProgressBoard } from './progress-board.ts'

/** What progress reporting needs. */
export interface ProgressReporting {
  link: Pick<PlatformLink, 'request'>
  facts: () => Pick<AgentFacts, 'id' | 'instance'>
  board: Pick<ProgressBoard, 'newest' | 'onReported'>
}

/** Reports within this time are sent together. */
const FIRST_MS = 100
const APART_MS = 1_000
const CALL_MS = 10_000

/** Starts reporting; the returned function stops it. Never throws. */
export function startProgressReporting({ link, facts, board }: ProgressReporting): () => void {
  const ending = new AbortController()
  let timer: NodeJS.Timeout | undefined
  let sentAtMs = Number.NEGATIVE_INFINITY
  let isSending = false
  let isPending = false

  const schedule = () => {
    isPending = true
    if (timer !== undefined || isSending || ending.signal.aborted) return
    const waitMs = Math.max(FIRST_MS, APART_MS - (performance.now() - sentAtMs))
    timer = setTimeout(() => void send(), waitMs)
  }
  const send = async () => {
    timer = undefined
    isPending = false
    const progress = board.newest()
    if (progress.length === 0) return
    const { id: agentId, instance } = facts()
    sentAtMs = performance.now()
    isSending = true
    const called = link.request({
      method: 'POST',
      path: '/agent/v1/presence',
      headers: { 'content-type': 'application/json' },
      body: Buffer.from(JSON.stringify({ agentId, instance, progress })),
      deadlineMs: CALL_MS,
      signal: ending.signal,
    })
    // Syncs report the problem.
    await called.catch(() => undefined)
    isSending = false
    if (isPending) schedule()
  }
  board.onReported(schedule)
  return () => {
    clearTimeout(timer)
    ending.abort()
  }
}
