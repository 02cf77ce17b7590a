// Probe of one address of an SSL monitor: the handshake, and the checks that follow it.
import { aboutIn, failure, type Failure, FAILURES } from '../../contract/failure.ts'
import { counted } from '../../contract/schema/amounts.ts'
import type { SslCode } from './definition.ts'
import { evaluateAssertions } from '../assertions/assertions.ts'
import type { Endpoint } from '../../network/dial.ts'
import { isDeadline, withDeadline } from '../../network/deadline.ts'
import type { Context } from '../monitor.ts'
import { NO_SOURCE, type Revocation, revocationOf } from './revocation/revocation.ts'
import { evaluateBaseline } from './baseline.ts'
import { type Chain, chainOf } from './chain.ts'
import {
  type Attempt,
  handshakeWithFallback,
  type Reached,
  serverRefusal,
  type SslPlan,
} from './connection.ts'
import {
  addTimestamps,
  certificateFailures,
  type ConnectionFacts,
  expiredText,
  report,
  type SslProbe,
  sourcesOf,
} from './report.ts'
import { offeredVersions } from './versions.ts'
import { failureOf } from '../../network/target-failure.ts'

const DAY_MS = 86_400_000

/** A running probe of one address, with its report. */
interface Running extends Attempt {
  facts: SslProbe
}

/** What the checks after the handshake need of it. */
interface Shown {
  chain: Chain | undefined
  staple: Buffer | undefined
}

/**
 * Probes one address; problems are in `failures`. Rejects with the signal's reason when the run is
 * cancelled. No socket is left in either case.
 */
export async function probeSsl(
  plan: SslPlan,
  endpoint: Endpoint,
  context: Context,
  startedAt: number,
): Promise<SslProbe> {
  const probe: SslProbe = { phases: { totalMs: 0 }, failures: [] }
  const running: Running = { plan, endpoint, context, progress: { phase: 'dns' }, facts: probe }
  const shown = await handshake(running, startedAt)
  if (shown !== undefined) {
    const now = Date.now()
    probe.failures.push(...certificateFailures(probe, shown.chain, plan, now))
    await runFollowUpChecks(running, shown)
    evaluate(running, shown.chain, now)
  }
  if (probe.connection !== undefined) {
    const sources = sourcesOf(probe, shown?.chain?.names ?? [])
    probe.failures.push(...(await evaluateAssertions(plan.assertions, sources, context.signal)))
  }
  return probe
}

/** The handshake and its report; undefined when there was none. */
async function handshake(running: Running, startedAt: number): Promise<Shown | undefined> {
  const { plan, context, progress, facts: probe } = running
  let reached: Reached | undefined
  try {
    reached = await withDeadline(context.signal, plan.maxResponseTime, (signal) =>
      handshakeWithFallback(running, signal),
    )
    probe.phases.totalMs = performance.now() - startedAt
    const { certificates, staple } = reached.secure
    const chain = certificates === undefined ? undefined : chainOf(certificates, plan.tls)
    report(probe, plan, reached, chain, Date.now(), context.dial.isProxied)
    const refusal = await serverRefusal(reached, context.signal)
    if (refusal !== undefined) probe.failures.push(refusal)
    return { chain, staple }
  } catch (error) {
    probe.phases.totalMs = performance.now() - startedAt
    probe.failures.push(failureOf(error, progress))
    return undefined
  } finally {
    reached?.secure.socket.destroy()
    reached?.socket.destroy()
  }
}

/** Revocation and versions, which need connections of their own. */
async function runFollowUpChecks(running: Running, { chain, staple }: Shown): Promise<void> {
  const { plan, endpoint, context, facts: probe } = running
  const { connection } = probe
  if (connection === undefined || chain === undefined) return
  if (chain.subject !== undefined && !chain.certificate.selfSigned) {
    const startedAt = performance.now()
    const asked = revocationOf({
      subject: chain.subject,
      staple,
      settings: plan.config.revocation,
      trusted: chain.shown.anchored,
      family: plan.endpoint.family,
      dial: context.dial,
      signal: context.signal,
    })
    const revocation = await withinDeadline(asked, context)
    if (revocation !== NO_SOURCE) probe.phases.revocationMs = performance.now() - startedAt
    addRevocation(probe, connection, revocation)
  }
  if (!plan.config.probeVersions) return
  // Of the probed server; a proxy resolves the name itself.
  const there = { ...endpoint, address: connection.resolvedIp ?? endpoint.address }
  const offered = await offeredVersions({ ...running, endpoint: there })
  connection.versions = offered.versions
  if (offered.undecided.length > 0) connection.versionsUndecided = offered.undecided
  addTimestamps(probe, 'handshake', offered.timestamps)
}

function addRevocation(probe: SslProbe, connection: ConnectionFacts, revocation: Revocation): void {
  probe.revocation = revocation
  for (const answer of [revocation.staple, revocation.ocsp]) {
    if (answer === undefined || answer.status === 'unavailable') continue
    // The later answer wins: after a stapled `unknown` the responder is asked.
    connection.ocspStatus = answer.status
    if ('timestamps' in answer) addTimestamps(probe, 'ocsp', answer.timestamps)
  }
}

/** At the deadline of the run the handshake still counts; the revocation status is unknown. */
async function withinDeadline(
  asked: Promise<Revocation>,
  { signal }: Context,
): Promise<Revocation> {
  try {
    return await asked
  } catch (error) {
    if (!isDeadline(signal)) throw error
    return { status: 'unavailable', ocsp: { status: 'unavailable', why: 'time ran out' } }
  }
}

function evaluate({ plan, facts }: Running, chain: Chain | undefined, now: number): void {
  const { config } = plan
  facts.failures.push(...revocationFailures(plan, facts.revocation))
  if (chain === undefined) return
  const degradedBy = config.securityBaseline.enabled ? applyBaseline(plan, facts, chain) : []
  const hasExpired = facts.failures.some(({ code }) => code === 'TLS_EXPIRED')
  const daysLeft = Math.floor((chain.earliestExpiry - now) / DAY_MS)
  // What is a failure already, or by `shouldFail` a pass, is no warning.
  if (daysLeft < config.alertDaysBeforeExpiry && !hasExpired) {
    const end = new Date(chain.earliestExpiry).toISOString()
    const when = `expires in ${counted(daysLeft, 'day')}, at ${end}`
    degradedBy.push(`expiry: the chain ${daysLeft < 0 ? expiredText(end, now) : when}`)
  }
  if (degradedBy.length > 0) facts.degradedBy = degradedBy
}

/** Adds violated rules to the failures; returns the reasons for degradation. */
function applyBaseline({ config }: SslPlan, probe: SslProbe, chain: Chain): string[] {
  const { connection, revocation } = probe
  if (connection === undefined || probe.failures.length > 0) {
    probe.securityBaseline = { verdict: 'skipped' }
    return []
  }
  const outcome = evaluateBaseline(config.securityBaseline, {
    connection,
    chain,
    stapledGood: revocation?.staple?.status === 'good',
    timestamps: probe.timestamps?.length ?? 0,
  })
  probe.securityBaseline = outcome
  const broken = outcome.findings.filter(({ severity }) => severity === 'fail')
  for (const { rule, message } of broken) {
    probe.failures.push(failure<SslCode>('TLS_BASELINE', message, { rule }))
  }
  const degrading = outcome.findings.filter(({ severity }) => severity === 'degrade')
  return degrading.map(({ rule, message }) => `${rule}: ${message}`)
}

function revocationFailures({ config }: SslPlan, revocation: Revocation | undefined): Failure[] {
  if (revocation?.status === 'revoked') {
    const { source, revokedAt, reason } = revocation
    const details = { source, revokedAt, reason }
    const why = reason === undefined ? '' : ` (${reason})`
    return [failure('TLS_REVOKED', `the certificate was revoked at ${revokedAt}${why}`, details)]
  }
  const isKnown = revocation?.status === 'good'
  if (isKnown || !config.revocation.hardFail) return []
  const answers = [revocation?.ocsp, revocation?.crl]
  for (const answer of answers) {
    if (answer?.status !== 'unavailable' || answer.code === undefined) continue
    // A query that the agent may not make shows nothing about the target.
    const failed: Failure = { code: answer.code, message: answer.why }
    if (aboutIn(FAILURES, failed) === 'agent') return [failed]
  }
  const { status = 'unavailable' } = revocation ?? {}
  return [failure<SslCode>('TLS_REVOCATION_UNKNOWN', unknownText(revocation), { status })]
}

function unknownText(revocation: Revocation | undefined): string {
  if (revocation?.status === 'unknown') return 'the OCSP responder does not know this certificate'
  const answers = [revocation?.ocsp, revocation?.crl]
  const answer = answers.find((one) => one?.status === 'unavailable')
  const why = answer?.status === 'unavailable' ? answer.why : NO_SOURCE.why
  return `revocation could not be looked up: ${why}`
}
