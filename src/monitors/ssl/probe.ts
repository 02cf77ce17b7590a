// Probe of one address of an SSL monitor: the handshake, and the checks that follow it.
import { aboutIn, failure, type Failure, FAILURES } from '../../contract/failure.ts'
import type { SslCode } from './definition.ts'
import { evaluateAssertions } from '../assertions/assertions.ts'
import type { Endpoint, Progress } from '../../network/dial.ts'
import { isDeadline, withDeadline } from '../../network/deadline.ts'
import type { Context } from '../monitor.ts'
import {
  hasRevocationSource,
  type Revocation,
  revocationOf,
  type SourceAnswer,
} from './revocation/revocation.ts'
import { evaluateBaseline } from './baseline.ts'
import { type Chain, chainOf } from './chain.ts'
import { type Reached, serverRefusal, handshakeWithFallback, type SslPlan } from './connection.ts'
import {
  addTimestamps,
  certificateFailures,
  type ConnectionFacts,
  report,
  type SslProbe,
  sourcesOf,
} from './report.ts'
import { offeredVersions } from './versions.ts'
import { failureOf } from '../../network/target-failure.ts'

const DAY_MS = 86_400_000

/** What the checks after the handshake need of it. */
interface ReportInputs {
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
  const shown = await handshake(plan, endpoint, context, probe, startedAt)
  if (shown !== undefined) {
    const now = Date.now()
    probe.failures.push(...certificateFailures(probe, plan, now))
    await runFollowUpChecks(plan, endpoint, context, probe, shown)
    evaluate(plan, probe, shown, now)
  }
  if (plan.assertions.length > 0 && probe.connection !== undefined) {
    const sources = sourcesOf(probe, shown?.chain?.names ?? [])
    probe.failures.push(...(await evaluateAssertions(plan.assertions, sources, context.signal)))
  }
  return probe
}

/** The handshake and its report; undefined when there was none. */
async function handshake(
  plan: SslPlan,
  endpoint: Endpoint,
  context: Context,
  probe: SslProbe,
  startedAt: number,
): Promise<ReportInputs | undefined> {
  const progress: Progress = { phase: 'dns' }
  const attempt = { plan, endpoint, context, progress, facts: probe }
  let reached: Reached | undefined
  try {
    reached = await withDeadline(context.signal, plan.maxResponseTime, (signal) =>
      handshakeWithFallback(attempt, signal),
    )
    probe.phases.totalMs = performance.now() - startedAt
    const { certificates, staple } = reached.secure
    const chain = certificates === undefined ? undefined : chainOf(certificates, plan.tls)
    report(probe, plan, reached, chain, Date.now())
    const refusal = await serverRefusal(reached, context.signal)
    if (refusal !== undefined) probe.failures.push(refusal)
    return { chain, staple }
  } catch (error) {
    probe.phases.totalMs = performance.now() - startedAt
    probe.failures.push(failureOf(error, progress))
    return undefined
  } finally {
    reached?.secure.socket.destroy()
    reached?.connection.socket.destroy()
  }
}

/** Revocation and versions, which need connections of their own. */
async function runFollowUpChecks(
  plan: SslPlan,
  endpoint: Endpoint,
  context: Context,
  probe: SslProbe,
  { chain, staple }: ReportInputs,
): Promise<void> {
  const { connection } = probe
  if (connection === undefined || chain === undefined) return
  if (chain.subject !== undefined && !chain.certificate.selfSigned) {
    const startedAt = performance.now()
    const asking = {
      subject: chain.subject,
      staple,
      settings: plan.config.revocation,
      trusted: chain.shown.anchored,
      family: plan.endpoint.family,
      dial: context.dial,
      signal: context.signal,
    }
    // Most certificates of internal networks name no source: no promise for those.
    const asks = hasRevocationSource(asking)
    const revocation = asks ? await withinDeadline(revocationOf(asking), context) : NO_SOURCE
    if (asks) probe.phases.revocationMs = performance.now() - startedAt
    addRevocation(probe, connection, revocation)
  }
  if (!plan.config.probeVersions) return
  // Of the probed server; a proxy resolves the name itself.
  const there = { ...endpoint, address: connection.resolvedIp ?? endpoint.address }
  const { versions, undecided, timestamps } = await offeredVersions(plan, there, context)
  connection.versions = versions
  if (undecided.length > 0) connection.versionsUndecided = undecided
  addTimestamps(probe, 'handshake', timestamps)
}

const NO_SOURCE: Revocation = {
  status: 'unavailable',
  why: 'the certificate names no revocation source that may be asked',
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
    const late: SourceAnswer = { status: 'unavailable', why: 'time ran out' }
    return { status: 'unavailable', ocsp: late }
  }
}

function evaluate(plan: SslPlan, probe: SslProbe, { chain }: ReportInputs, now: number): void {
  const { config } = plan
  probe.failures.push(...revocationFailures(plan, probe.revocation))
  if (chain === undefined) return
  const degradedBy: string[] = []
  if (config.securityBaseline.enabled) applyBaseline(plan, probe, chain, degradedBy)
  const daysLeft = (chain.earliestExpiry - now) / DAY_MS
  if (daysLeft < config.alertDaysBeforeExpiry) {
    const end = new Date(chain.earliestExpiry).toISOString()
    degradedBy.push(`expiry: the chain ends in ${Math.floor(daysLeft)} days, at ${end}`)
  }
  if (degradedBy.length > 0) probe.degradedBy = degradedBy
}

/** Adds violated rules to the failures or to the reasons for degradation. */
function applyBaseline(
  { config }: SslPlan,
  probe: SslProbe,
  chain: Chain,
  degradedBy: string[],
): void {
  const { connection, revocation } = probe
  if (connection === undefined || probe.failures.length > 0) {
    probe.securityBaseline = { verdict: 'skipped' }
    return
  }
  const outcome = evaluateBaseline(config.securityBaseline, {
    connection,
    chain,
    stapledGood: revocation?.staple?.status === 'good',
    timestamps: probe.timestamps?.length ?? 0,
  })
  probe.securityBaseline = outcome
  for (const { rule, severity, message } of outcome.findings) {
    if (severity === 'fail')
      probe.failures.push(failure<SslCode>('TLS_BASELINE', message, { rule }))
    else if (severity === 'degrade') degradedBy.push(`${rule}: ${message}`)
  }
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
  const why = answers.find((answer) => answer?.status === 'unavailable')
  const because = why?.status === 'unavailable' ? why.why : NO_SOURCE.why
  return [
    failure<SslCode>('TLS_REVOCATION_UNKNOWN', `revocation could not be looked up: ${because}`),
  ]
}
