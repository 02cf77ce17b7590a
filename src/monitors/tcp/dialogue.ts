// A scripted exchange with a TCP target: expect, send and start TLS, step by step, each timed.
import { toMicroseconds } from '../../contract/schema/duration.ts'
import { excerptOf } from '../assertions/comparison.ts'
import { endOfMatch } from '../assertions/assertions.ts'
import { DeadlineReached } from '../../network/deadline.ts'
import { TargetFailure, targetFailure } from '../../network/target-failure.ts'
import type { TcpCode, TcpRequest } from './definition.ts'
import { secure, send, type Running, type StepOutcome } from './connection.ts'
import type { Received } from '../../network/tcp-received.ts'

type Step = TcpRequest['dialogue'][number]

/** Progress of the dialogue. */
interface Place {
  step: number
  /** Characters of the answer consumed by earlier steps. */
  consumed: number
}

/**
 * Runs the steps in order and stops at the first that fails. `expect` looks for its pattern (`^` and `$`
 * at line ends) in the unconsumed part of the answer, and consumes it up to the end of the line.
 */
export async function runDialogue(running: Running): Promise<void> {
  const outcomes: StepOutcome[] = []
  running.probe.dialogue = outcomes
  const place: Place = { step: 0, consumed: 0 }
  for (const step of running.plan.request.dialogue) {
    place.step++
    const startedAt = performance.now()
    const outcome = { ...described(step), step: place.step, passed: false, durationMs: 0 }
    outcomes.push(outcome)
    try {
      await runStep(running, step, place)
      outcome.passed = true
    } finally {
      outcome.durationMs = toMicroseconds(performance.now() - startedAt)
    }
  }
}

function described(step: Step): Pick<StepOutcome, 'kind' | 'pattern' | 'bytes'> {
  if ('expect' in step) return { kind: 'expect', pattern: step.expect }
  if ('send' in step) return { kind: 'send', bytes: Buffer.byteLength(step.send) }
  return { kind: 'startTls' }
}

async function runStep(running: Running, step: Step, place: Place): Promise<void> {
  if ('expect' in step) return expectPattern(running, step.expect, place)
  if ('send' in step) return send(running, Buffer.from(step.send))
  await secure(running)
  // Plaintext received before TLS must not count as an answer under TLS.
  place.consumed = textOf(running.received).length
}

function textOf(received: Received): string {
  return received.content().toString('utf8')
}

async function expectPattern(running: Running, pattern: string, place: Place): Promise<void> {
  const { context, progress, received } = running
  for (;;) {
    const text = textOf(received)
    const unread = text.slice(place.consumed)
    const end = await endOfMatch(pattern, unread, context.signal)
    if (typeof end !== 'number') {
      running.probe.failedDueToRegex = true
      throw new TargetFailure(end)
    }
    if (end >= 0) {
      place.consumed += endOfLine(unread, end)
      return
    }
    progress.phase = received.bytes === 0 ? 'firstByte' : 'download'
    if (received.ended !== undefined) throw unexpected(running, pattern, unread, place)
    await waitForMore(running, () => unexpected(running, pattern, unread, place))
  }
}

/** Waits for data; a deadline after a wrong answer counts as a wrong answer. */
async function waitForMore(
  { context, received }: Running,
  wrongAnswer: () => TargetFailure,
): Promise<void> {
  const before = received.bytes
  try {
    await received.more()
    // Pieces of one line arrive together; matching after each of them is quadratic.
    if (before > GATHERED_BYTES_MIN) await received.gather(GATHER_MS)
  } catch (error) {
    if (error instanceof DeadlineReached && received.bytes > 0) throw wrongAnswer()
    throw error
  }
  context.signal.throwIfAborted()
}

const GATHERED_BYTES_MIN = 4096
const GATHER_MS = 20

/** The failure of a step whose pattern did not match. */
function unexpected(
  running: Running,
  pattern: string,
  unread: string,
  { step }: Place,
): TargetFailure {
  const details = { step, pattern }
  const { probe, received, where } = running
  const { ended } = received
  if (typeof ended === 'object' && unread === '') {
    return new TargetFailure({ ...ended, message: `step ${step}: ${ended.message}`, details })
  }
  if (ended === 'closed' && unread === '') {
    const message = `step ${step}: ${where} closed the connection before it sent what was expected`
    return targetFailure('CONNECTION_CLOSED', message, details)
  }
  probe.failedDueToRegex = true
  const shown = excerptOf(unread, 200)
  const message = `step ${step}: expected ${pattern}, got ${shown}`
  return targetFailure<TcpCode>('TCP_EXPECT', message, { ...details, actual: shown })
}

function endOfLine(text: string, at: number): number {
  // The match may include the end of its line.
  if (at > 0 && text[at - 1] === '\n') return at
  const lineEnd = text.indexOf('\n', at)
  return lineEnd === -1 ? at : lineEnd + 1
}
