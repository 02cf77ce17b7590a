// One address of an SSL monitor: its handshake, and all that can be learnt from it afterwards.
import { aboutWhom, failure, type Failure } from '../../contract/failure.ts'
import type { X509Certificate } from 'node:crypto'
import type { SecurityBaseline, SslCode } from './definition.ts'
import { evaluateAssertions } from '../assertions/assertions.ts'
import type { Endpoint, Progress } from '../../network/dial.ts'
import { isDeadline } from '../../network/deadline.ts'
import { type Context } from '../monitor.ts'
import {
  isAnybodyAsked,
  type Revocation,
  revocationOf,
  type Word,
} from './revocation/revocation.ts'
import { type BaselineOutcome, evaluateBaseline, type Measured } from './baseline.ts'
import { type Chain, chainOf } from './chain.ts'
import { PhaseClock, type Reached, serversVerdict, shakeAnyHands } from './connection.ts'
import type { SslPlan } from './plan.ts'
import {
  addTimestamps,
  categoryOf,
  certificateFailures,
  type ConnectionFacts,
  report,
  type SslProbe,
} from './report.ts'
import { sourcesOf } from './sources.ts'
import { offeredVersions } from './versions.ts'
import { failureOf } from '../../network/target-failure.ts'
import { altNames } from '../../network/tls/facts.ts'

const DAY_MS = 86_400_000

/** What the report was made from. */
interface Shown {
  chain: Chain | undefined
  leaf: X509Certificate | undefined
  staple: Buffer | undefined
}

/**
 * Probes one address; what is wrong is in `failures`. Rejects with the signal's reason when the run is
 * cancelled. No socket is left in either case.
 */
export async function probeSsl(
  plan: SslPlan,
  endpoint: Endpoint,
  context: Context,
): Promise<SslProbe> {
  const probe: SslProbe = { phases: { totalMs: 0 }, failures: [] }
  const shown = await shake(plan, endpoint, context, probe)
  if (shown !== undefined) {
    const now = Date.now()
    probe.failures.push(...certificateFailures(probe, plan, now))
    await lookFurther(plan, endpoint, context, probe, shown)
    evaluate(plan, probe, shown, now)
  }
  if (plan.assertions.length > 0 && probe.connection !== undefined) {
    const names = () => altNames(shown?.leaf?.subjectAltName)
    const sources = sourcesOf(probe, names)
    probe.failures.push(...(await evaluateAssertions(plan.assertions, sources, context.signal)))
  }
  const category = categoryOf(probe.failures)
  if (category !== undefined) probe.errorCategory = category
  return probe
}

/** The handshake and its report; undefined when there was none. */
async function shake(
  plan: SslPlan,
  endpoint: Endpoint,
  context: Context,
  probe: SslProbe,
): Promise<Shown | undefined> {
  const startedAt = performance.now()
  const progress: Progress = { phase: 'dns' }
  const clock = new PhaseClock(context.signal, plan.maxResponseTime)
  let reached: Reached | undefined
  try {
    reached = await shakeAnyHands(plan, endpoint, context, progress, clock, probe.phases)
    probe.phases.totalMs = performance.now() - startedAt
    const { secure, connection } = reached
    probe.address = connection.address
    probe.family = connection.family
    const { certificates, staple } = secure
    const chain = certificates === undefined ? undefined : chainOf(certificates, plan.tls)
    report(probe, plan, reached, chain, Date.now())
    const refusal = await serversVerdict(reached, context.signal)
    if (refusal !== undefined) probe.failures.push(refusal)
    return { chain, leaf: certificates?.leaf, staple }
  } catch (error) {
    probe.phases.totalMs = performance.now() - startedAt
    probe.failures.push(failureOf(error, progress))
    return undefined
  } finally {
    clock.stop()
    reached?.secure.socket.destroy()
    reached?.connection.socket.destroy()
  }
}

/** Revocation and versions: what takes connections of its own. */
async function lookFurther(
  plan: SslPlan,
  endpoint: Endpoint,
  context: Context,
  probe: SslProbe,
  { chain, staple }: Shown,
): Promise<void> {
  const { connection } = probe
  if (connection === undefined || chain === undefined) return
  if (chain.subject !== undefined && !chain.certificate.selfSigned) {
    const startedAt = performance.now()
    const asking = {
      subject: chain.subject,
      staple,
      settings: plan.config.revocation,
      trusted: chain.anchored,
      family: plan.family,
      dial: context.dial,
      signal: context.signal,
    }
    // Most certificates of inner networks name nobody to ask: no promise for those.
    const asks = isAnybodyAsked(asking)
    const revocation = asks ? await inTime(revocationOf(asking), context) : NOBODY_ASKED
    if (asks) probe.phases.revocationMs = performance.now() - startedAt
    takeRevocation(probe, connection, revocation)
  }
  if (!plan.config.probeVersions) return
  // Of the server that has been looked at; a proxy looks up the name by itself.
  const there = { ...endpoint, address: connection.resolvedIp ?? endpoint.address }
  const { versions, undecided, timestamps } = await offeredVersions(plan, there, context)
  connection.versions = versions
  if (undecided.length > 0) connection.versionsUndecided = undecided
  addTimestamps(probe, 'handshake', timestamps)
}

const NOBODY_ASKED: Revocation = {
  status: 'unavailable',
  why: 'the certificate names nobody who may be asked',
}

function takeRevocation(
  probe: SslProbe,
  connection: ConnectionFacts,
  revocation: Revocation,
): void {
  probe.revocation = revocation
  for (const word of [revocation.staple, revocation.ocsp]) {
    if (word === undefined || word.status === 'unavailable') continue
    // The later one knew better: a staple that says `unknown` is followed by a question.
    connection.ocspStatus = word.status
    if ('timestamps' in word) addTimestamps(probe, 'ocsp', word.timestamps)
  }
}

/** When the time of the whole run is up, the handshake still counts: only nothing is known of revocation. */
async function inTime(asked: Promise<Revocation>, { signal }: Context): Promise<Revocation> {
  try {
    return await asked
  } catch (error) {
    if (!isDeadline(signal)) throw error
    const late: Word = { status: 'unavailable', why: 'time ran out' }
    return { status: 'unavailable', ocsp: late }
  }
}

function evaluate(plan: SslPlan, probe: SslProbe, { chain }: Shown, now: number): void {
  const { config } = plan
  probe.failures.push(...revocationFailures(plan, probe.revocation))
  if (chain === undefined) return
  const degradedBy: string[] = []
  if (config.securityBaseline.enabled) holdAgainstBaseline(plan, probe, chain, degradedBy)
  const daysLeft = (chain.earliestExpiry - now) / DAY_MS
  if (daysLeft < config.alertDaysBeforeExpiry) {
    const end = new Date(chain.earliestExpiry).toISOString()
    degradedBy.push(`expiry: the chain ends in ${Math.floor(daysLeft)} days, at ${end}`)
  }
  if (degradedBy.length > 0) probe.degradedBy = degradedBy
}

interface Evaluated {
  baseline: SecurityBaseline
  inputs: string
  outcome: BaselineOutcome
}

const evaluated = new WeakMap<Chain, Evaluated>()

/** The outcome; that of the last run where nothing has changed since. */
function outcomeOf(baseline: SecurityBaseline, chain: Chain, measured: Measured): BaselineOutcome {
  const { tlsVersion, versions = [], cipherSuite, stapledGood, timestamps } = measured
  const inputs = `${tlsVersion} ${versions.join()} ${cipherSuite} ${stapledGood} ${timestamps}`
  const known = evaluated.get(chain)
  if (known?.baseline === baseline && known.inputs === inputs) return known.outcome
  const outcome = evaluateBaseline(baseline, measured)
  evaluated.set(chain, { baseline, inputs, outcome })
  return outcome
}

/** Adds what is broken to the failures, or to why the run is degraded. */
function holdAgainstBaseline(
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
  const outcome = outcomeOf(config.securityBaseline, chain, {
    tlsVersion: connection.tlsVersion,
    versions: connection.versions,
    cipherSuite: connection.cipherSuite,
    built: chain.built,
    anchored: chain.anchored,
    mustStaple: chain.certificate.mustStaple,
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
  const words = [revocation?.ocsp, revocation?.crl]
  for (const word of words) {
    if (word?.status !== 'unavailable' || word.code === undefined) continue
    // That we may not ask says nothing about the target.
    const failed: Failure = { code: word.code, message: word.why }
    if (aboutWhom(failed) === 'agent') return [failed]
  }
  const why = words.find((word) => word?.status === 'unavailable')
  const because = why?.status === 'unavailable' ? why.why : NOBODY_ASKED.why
  return [
    failure<SslCode>('TLS_REVOCATION_UNKNOWN', `revocation could not be looked up: ${because}`),
  ]
}
