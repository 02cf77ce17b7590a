// State of the system's name servers as a whole: whether a missing answer concerns the name, or the servers
// themselves, which do not answer other questions either.
import { randomInt } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { failure, type Failure, type FailureCode } from '../../contract/failure.ts'
import { DNS_PORTS } from '../../contract/dns/parameters.ts'
import { DeadlineReached, isDeadline, untilAborted } from '../deadline.ts'
import { encodeQuery, type DnsMessage } from './message.ts'
import { askOverUdp, type DnsServer } from './udp.ts'
import { cutOffFailure, isCutOff } from '../own-network.ts'
import { parseResolvConf, RESOLV_CONF, type ResolvConf } from './resolv-conf.ts'
import { TargetFailure } from '../target-failure.ts'
import { watchedFile } from '../watched-file.ts'

/** The system's name servers of resolv.conf, with their ports. */
export type SystemServers = Pick<ResolvConf, 'timeoutMs' | 'attempts'> & {
  servers: readonly DnsServer[]
}

/** How soon name servers count as unresponsive. Milliseconds. */
export interface Pace {
  /** After this time without an answer, the root is queried in addition. */
  rootAfterMs: number
  /** Between two queries for the root. */
  rootTryMs: number
  /**
   * The wait for the answer is divided into turns: a process that was suspended has not listened for the whole time.
   * TURNS_MAX turns without an answer suffice; at a deadline, TURNS_AT_DEADLINE_MIN.
   */
  turnMs: number
}

const PACE: Pace = { rootAfterMs: 500, rootTryMs: 500, turnMs: 200 }
/** Queries for the root to each server. */
const ROOT_TRIES = 3
const TURNS_MAX = 10
const TURNS_AT_DEADLINE_MIN = 2
/** For this time after an unanswered query for the root, the servers count as unresponsive. */
const UNRESPONSIVE_MS = 10_000

/** `. NS` (RFC 8109): every name server has it in its cache. */
const ROOT_QUERY = encodeQuery({
  name: Buffer.alloc(1),
  type: 2,
  class: 1,
  recursionDesired: true,
  checkingDisabled: false,
  dnssecOk: false,
  ednsBytes: 0,
  nsid: false,
})

/** Failures of a question without an answer, or without a usable one. */
const NO_ANSWER: ReadonlySet<string> = new Set<FailureCode>([
  'DNS_SERVER_FAILED',
  'CONNECT_REFUSED',
  'CONNECT_UNREACHABLE',
  'CONNECT_FAILED',
  'CONNECTION_RESET',
  'CONNECTION_CLOSED',
  'TIMEOUT_CONNECT',
])

export class NameServers {
  readonly #system: () => Pick<SystemServers, 'servers'>
  readonly #pace: Pace
  #answeredMs = Number.NEGATIVE_INFINITY
  /** Time of the last query for the root, and the latest time at which the servers were unresponsive. */
  #askedMs = Number.NEGATIVE_INFINITY
  #unresponsiveMs = Number.NEGATIVE_INFINITY
  #asking: Promise<void> | undefined
  /** Turns waited so far. */
  #turns = 0

  constructor(system: () => Pick<SystemServers, 'servers'>, pace: Pace = PACE) {
    this.#system = system
    this.#pace = pace
  }

  get servers(): readonly DnsServer[] {
    return this.#system().servers
  }

  /** Records that a server gave any answer but REFUSED. */
  noteAnswer(): void {
    if (this.#isAskedInVain()) this.#unresponsiveMs = performance.now()
    this.#answeredMs = performance.now()
  }

  /**
   * Runs a question to the servers. If it gets no answer and the servers are unresponsive, rejects with TargetFailure
   * (RESOLVER_UNREACHABLE, NETWORK_UNREACHABLE) instead of the question's own reason.
   */
  async ask<T>(question: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const sinceMs = performance.now()
    const wasUnresponsive = this.#isUnresponsive(sinceMs)
    // The answer must be known before the deadline.
    const timer = setTimeout(() => void this.#askForRoot(), this.#pace.rootAfterMs)
    try {
      return await question()
    } catch (error) {
      if (!isWithoutAnswer(error)) throw error
      // Servers that recover meanwhile do not answer a question that was lost before.
      const isLost = wasUnresponsive || this.#unresponsiveMs >= sinceMs
      const problem = isLost ? this.#problem() : await this.problem(sinceMs, signal)
      throw problem === undefined ? error : because(problem, error)
    } finally {
      clearTimeout(timer)
    }
  }

  /**
   * Undefined when a server has answered anything since `sinceMs` (performance.now()), or does so now: they
   * are asked for the root. Rejects with the signal's reason when it is aborted, but not by a deadline.
   */
  async problem(sinceMs: number, signal: AbortSignal): Promise<Failure | undefined> {
    if (isCutOff()) return cutOffFailure()
    if (this.#answeredMs >= sinceMs) return undefined
    await untilAborted(this.#askForRoot(), signal).catch(() => undefined)
    // An answer may have arrived and not been read yet.
    await nextTurn()
    if (signal.aborted && !isDeadline(signal)) throw signal.reason
    const isAnswering = this.#answeredMs >= sinceMs || !this.#isUnresponsive(sinceMs)
    return isAnswering ? undefined : this.#problem()
  }

  #problem(): Failure {
    if (isCutOff()) return cutOffFailure()
    const servers = this.servers.map(({ address }) => address)
    const message = `this agent’s own name servers do not answer (${servers.join(', ')})`
    return failure('RESOLVER_UNREACHABLE', message, { servers })
  }

  /** Whether the current query for the root has had no answer for some turns. */
  #isAskedInVain(): boolean {
    const isAsked = this.#asking !== undefined && this.#answeredMs < this.#askedMs
    return isAsked && this.#turns >= TURNS_AT_DEADLINE_MIN
  }

  #isUnresponsive(sinceMs: number): boolean {
    if (this.#isAskedInVain()) return true
    if (this.#unresponsiveMs <= this.#answeredMs) return false
    return (
      this.#unresponsiveMs >= sinceMs || performance.now() - this.#unresponsiveMs < UNRESPONSIVE_MS
    )
  }

  /** One query at a time, shared by all callers. Never rejects. */
  #askForRoot(): Promise<void> {
    return (this.#asking ??= this.#askOnce().finally(() => (this.#asking = undefined)))
  }

  async #askOnce(): Promise<void> {
    this.#askedMs = performance.now()
    const query = Buffer.from(ROOT_QUERY)
    query.writeUInt16BE(randomInt(65_536), 0)
    const { servers } = this
    const tries = { attempts: ROOT_TRIES, tryMs: this.#pace.rootTryMs, passesOver: isRefusal }
    const tally = { sent: 0, ignored: 0, passedOver: [] }
    const over = new AbortController()
    this.#turns = 0
    const timer = setInterval(() => {
      if (++this.#turns === TURNS_MAX) over.abort(new Error('no name server answers'))
    }, this.#pace.turnMs)
    try {
      const { message } = await askOverUdp({ servers, query, ...tries }, tally, over.signal)
      if (message === undefined || !isRefusal(message)) this.noteAnswer()
    } catch (error) {
      // A malformed answer is an answer, too.
      if (error instanceof TargetFailure && error.failure.code === 'DNS_MALFORMED')
        this.noteAnswer()
    } finally {
      clearInterval(timer)
    }
    if (this.#answeredMs < this.#askedMs) this.#unresponsiveMs = performance.now()
  }
}

function isRefusal({ Status }: DnsMessage): boolean {
  return Status === 'REFUSED'
}

function isWithoutAnswer(error: unknown): boolean {
  if (error instanceof DeadlineReached) return true
  return error instanceof TargetFailure && NO_ANSWER.has(error.failure.code)
}

/** The problem with the details of the question's own failure. */
function because(problem: Failure, error: unknown): TargetFailure {
  const { code, details } = error instanceof TargetFailure ? error.failure : { code: 'TIMEOUT_DNS' }
  const reason = details?.['reason'] ?? code
  return new TargetFailure({ ...problem, details: { ...details, ...problem.details, reason } })
}

/** The current servers of resolv.conf. */
export const systemServers = watchedFile(RESOLV_CONF, (text): SystemServers => {
  const { servers, timeoutMs, attempts } = parseResolvConf(text)
  return {
    servers: servers.map((address) => ({ address, port: DNS_PORTS.UDP })),
    timeoutMs,
    attempts,
  }
})

/** The state that all monitors of this process share. */
export const systemNameServers = new NameServers(systemServers)
