// One TCP connection from dialling to the last byte of the answer, with the duration of each phase.
import { TCP_LIMITS } from './definition.ts'
import { LIMITS } from '../../contract/versions.ts'
import { evaluateAssertions, type AssertionSources } from '../assertions/assertions.ts'
import type { Endpoint, Progress } from '../../network/dial.ts'
import type { Context } from '../monitor.ts'
import { reach } from '../probe.ts'
import { failureOf, targetFailure } from '../../network/target-failure.ts'
import { type Plan, send, type Probe, type Running } from './connection.ts'
import { runDialogue } from './dialogue.ts'
import { readableBytes, Received } from '../../network/tcp-received.ts'

/** Time before the deadline that is left to the runner. */
const MARGIN_MS = 50
/** How long small pieces of an answer are gathered before the assertions are evaluated again. */
const GATHER_MS = 20

/**
 * Makes one connection and runs the planned exchange; time counts from `startedAt`. Faults of the target are in
 * `failures`. Rejects with the signal's reason when the run is cancelled. Closes its socket in any case.
 */
export async function probeTcp(
  plan: Plan,
  endpoint: Endpoint,
  context: Context,
  startedAt = performance.now(),
): Promise<Probe> {
  const progress: Progress = { phase: 'dns' }
  const probe: Probe = { phases: { totalMs: 0 }, failures: [] }
  let running: Running | undefined
  try {
    const tls = plan.tlsFirst ? plan.tls : undefined
    const { socket, where } = await reach(endpoint, tls, context, progress, probe)
    const received = new Received(where, context.signal)
    const sentAt = performance.now()
    running = { plan, context, probe, progress, startedAt, sentAt, where, socket, received }
    await converse(running)
  } catch (error) {
    probe.failures.push(failureOf(error, progress))
  } finally {
    if (running !== undefined) finish(running)
  }
  if (probe.phases.totalMs === 0) probe.phases.totalMs = performance.now() - startedAt
  return probe
}

async function converse(running: Running): Promise<void> {
  const { plan, probe, progress, socket, received } = running
  if (plan.reads) received.attach(socket)
  if (plan.data !== undefined) {
    // A target that sends while the request is sent must not block it with full buffers.
    if (!plan.reads) socket.resume()
    await send(running, plan.data)
    running.sentAt = performance.now()
  }
  if (plan.request.dialogue.length > 0) await runDialogue(running)
  if (plan.dataAssertions.length === 0) {
    probe.phases.totalMs = performance.now() - running.startedAt
  } else {
    const answeredAt = performance.now()
    await readAnswer(running)
    probe.phases.totalMs = (received.lastAt ?? answeredAt) - running.startedAt
  }
  progress.phase = 'download'
  await evaluateAnswer(running)
}

/**
 * Reads until more data cannot change the outcome, the peer closes, or time is up. Assertions that the next data may
 * break (`EQUALS`) have to hold through a pause; what does not hold yet gets all of the time.
 */
async function readAnswer(running: Running): Promise<void> {
  const { plan, progress, received } = running
  let looked = 0
  while (received.ended === undefined && (received.bytes === 0 || timeLeftMs(running) > 0)) {
    const { bytes } = received
    progress.phase = bytes === 0 ? 'firstByte' : 'download'
    if (plan.settlesEarly && bytes > looked) {
      // Small pieces are gathered: evaluating the whole answer for each of them is quadratic.
      if (looked > 0 && bytes < looked * 2) await received.gather(GATHER_MS)
      looked = received.bytes
      if (await isSettled(running)) return
    }
    const quietMs = bytes === 0 ? 2 * TCP_LIMITS.tcpQuietMs : TCP_LIMITS.tcpQuietMs
    if (await received.more(Math.max(1, Math.min(quietMs, timeLeftMs(running))))) continue
    if (await isSettled(running)) return
    // Without any data, time runs out at the deadline.
    await received.more(bytes === 0 ? undefined : Math.max(1, timeLeftMs(running)))
  }
  received.throwIfTooLarge()
}

/** The assertions are evaluated before the deadline. */
function timeLeftMs({ plan, startedAt }: Running): number {
  return plan.maxResponseTime - (performance.now() - startedAt) - MARGIN_MS
}

/** Whether more data cannot change the outcome: all hold, one cannot be evaluated, or one is broken for good. */
async function isSettled(running: Running): Promise<boolean> {
  const { plan, context } = running
  const failures = await evaluateAssertions(plan.dataAssertions, sourcesOf(running), context.signal)
  return (
    failures.every(({ code }) => code !== 'ASSERTION_FAILED') ||
    failures.some(({ details }) => plan.brokenForGood[Number(details?.['index'])] === true)
  )
}

function sourcesOf({ received, probe }: Running): AssertionSources {
  return {
    RESPONSE_DATA: { kind: 'text', text: () => received.content().toString('utf8') },
    RESPONSE_TIME: { kind: 'value', value: () => probe.phases.totalMs },
  }
}

async function evaluateAnswer(running: Running): Promise<void> {
  const { plan, context, probe, received } = running
  const { assertions } = plan.request
  if (assertions.length === 0) return
  const failures = await evaluateAssertions(assertions, sourcesOf(running), context.signal)
  const missed = failures.filter(({ details }) => details?.['source'] === 'RESPONSE_DATA')
  if (missed.some(({ details }) => details?.['property'] !== '')) probe.failedDueToRegex = true
  if (missed.length > 0) {
    // The cause of an incomplete answer comes before the failed assertions.
    if (typeof received.ended === 'object') probe.failures.push(received.ended)
    else if (received.ended === 'closed' && received.bytes === 0) {
      const message = `${running.where} closed the connection without an answer`
      throw targetFailure('CONNECTION_CLOSED', message)
    }
  }
  probe.failures.push(...failures)
}

function finish({ plan, socket, received, probe, sentAt }: Running): void {
  received.close()
  socket.destroy()
  if (!plan.reads) return
  const { bytes, firstAt, lastAt } = received
  if (firstAt !== undefined && lastAt !== undefined) {
    probe.phases.firstByteMs = Math.max(0, firstAt - sentAt)
    probe.phases.downloadMs = lastAt - firstAt
  }
  const shown = received.content().subarray(0, LIMITS.bodyExcerptBytesMax)
  probe.response = { data: readableBytes(shown), bytes, truncated: bytes > shown.length }
}
