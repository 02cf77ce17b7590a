// The system's name servers, all together: whether a question without an answer is about the name that was
// asked for, or about the servers themselves, which answer nothing else either.
import { randomInt } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { failure, type Failure, type FailureCode } from '../../contract/failure.ts'
import { DNS_PORTS } from '../../contract/dns/ports.ts'
import { DeadlineReached, isDeadline } from '../deadline.ts'
import { encodeQuery, type DnsMessage } from './message.ts'
import { askOverUdp, type DnsServer } from './udp.ts'
import { cutOffFailure, isCutOff } from '../own-network.ts'
import { parseResolvConf, RESOLV_CONF, type ResolvConf } from './resolv-conf.ts'
import { TargetFailure } from '../target-failure.ts'
import { watchedFile } from '../watched-file.ts'

/** The system's name servers, where one more thing than resolv.conf knows is the port. */
export type SystemServers = Pick<ResolvConf, 'timeoutMs' | 'attempts'> & {
  servers: readonly DnsServer[]
}

export interface NameServers {
  /** A server gave an answer, whatever it says, unless it refuses (REFUSED). */
  noteAnswer(): void
  /**
   * Runs a question to the servers. Where it ends without an answer and they answer nothing else either,
   * rejects with TargetFailure (RESOLVER_UNREACHABLE, NETWORK_UNREACHABLE) in place of its own reason.
   */
  ask<T>(question: () => Promise<T>, signal: AbortSignal): Promise<T>
  /**
   * Undefined when a server has answered anything since `sinceMs` (performance.now()), or does so now: they
   * are asked for the root. Rejects with the signal's reason when it is aborted, but not by a deadline.
   */
  problem(sinceMs: number, signal: AbortSignal): Promise<Failure | undefined>
}

/** A question is unanswered for so long when the root is asked for beside it. */
const ROOT_AFTER_MS = 500
/** How often each server is asked for the root. */
const ROOT_TRIES = 3
const ROOT_TRY_MS = 500
/**
 * The answer is waited for in turns, one after the other, since a process that stood still for a while has not
 * listened. So many are enough; at a deadline, so many.
 */
const TURN_MS = 200
const TURNS_MAX = 10
const TURNS_AT_DEADLINE_MIN = 2
/** How long servers count as silent that were when they were last asked for the root. */
const SILENCE_KEPT_MS = 10_000

/** Any name server knows where the root is, and has it at hand; `. NS` (RFC 8109). */
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

/** Failures of a question to which no answer came, or none that was of use. */
const NO_ANSWER: ReadonlySet<string> = new Set<FailureCode>([
  'DNS_SERVER_FAILED',
  'CONNECT_REFUSED',
  'CONNECT_UNREACHABLE',
  'CONNECT_FAILED',
  'CONNECTION_RESET',
  'CONNECTION_CLOSED',
  'TIMEOUT_CONNECT',
])

/** Makes the memory of these servers; asks nothing yet. */
export function createNameServers(system: () => Pick<SystemServers, 'servers'>): NameServers {
  return new AskedServers(system)
}

class AskedServers implements NameServers {
  readonly #system: () => Pick<SystemServers, 'servers'>
  #answeredMs = Number.NEGATIVE_INFINITY
  /** When they were last asked for the root, and until when they are known to have been silent. */
  #askedMs = Number.NEGATIVE_INFINITY
  #silentMs = Number.NEGATIVE_INFINITY
  #asking: Promise<void> | undefined
  /** How many it has been waited for. */
  #turns = 0

  constructor(system: () => Pick<SystemServers, 'servers'>) {
    this.#system = system
  }

  noteAnswer(): void {
    if (this.#isAskedInVain()) this.#silentMs = performance.now()
    this.#answeredMs = performance.now()
  }

  async ask<T>(question: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const sinceMs = performance.now()
    const wasSilent = this.#isSilent(sinceMs)
    // At the deadline it is too late to ask: it has to be known by then.
    const timer = setTimeout(() => void this.#askForRoot(), ROOT_AFTER_MS)
    try {
      return await question()
    } catch (error) {
      if (!isWithoutAnswer(error)) throw error
      // Servers that come back in the meantime do not make up for a question that was lost before.
      const isLost = wasSilent || this.#silentMs >= sinceMs
      const problem = isLost ? this.#problem() : await this.problem(sinceMs, signal)
      throw problem === undefined ? error : because(problem, error)
    } finally {
      clearTimeout(timer)
    }
  }

  async problem(sinceMs: number, signal: AbortSignal): Promise<Failure | undefined> {
    if (isCutOff()) return cutOffFailure()
    if (this.#answeredMs >= sinceMs) return undefined
    await orAborted(this.#askForRoot(), signal)
    // What has come and was not read yet is an answer.
    await nextTurn()
    if (signal.aborted && !isDeadline(signal)) throw signal.reason
    const isAnswering = this.#answeredMs >= sinceMs || !this.#isSilent(sinceMs)
    return isAnswering ? undefined : this.#problem()
  }

  #problem(): Failure {
    if (isCutOff()) return cutOffFailure()
    const servers = this.#system().servers.map(({ address }) => address)
    const message = `this agent’s own name servers do not answer (${servers.join(', ')})`
    return failure('RESOLVER_UNREACHABLE', message, { servers })
  }

  /** Whether nothing has been answered since they were asked for the root, a while ago. */
  #isAskedInVain(): boolean {
    const isAsked = this.#asking !== undefined && this.#answeredMs < this.#askedMs
    return isAsked && this.#turns >= TURNS_AT_DEADLINE_MIN
  }

  #isSilent(sinceMs: number): boolean {
    if (this.#isAskedInVain()) return true
    if (this.#silentMs <= this.#answeredMs) return false
    return this.#silentMs >= sinceMs || performance.now() - this.#silentMs < SILENCE_KEPT_MS
  }

  /** One question at a time, whoever needs it. Never rejects. */
  #askForRoot(): Promise<void> {
    return (this.#asking ??= this.#askOnce().finally(() => (this.#asking = undefined)))
  }

  async #askOnce(): Promise<void> {
    this.#askedMs = performance.now()
    const query = Buffer.from(ROOT_QUERY)
    query.writeUInt16BE(randomInt(65_536), 0)
    const { servers } = this.#system()
    const tries = { attempts: ROOT_TRIES, tryMs: ROOT_TRY_MS, passesOver: isRefusal }
    const tally = { sent: 0, ignored: 0, passedOver: [] }
    const over = new AbortController()
    const count = () => {
      this.#turns++
      if (this.#turns === TURNS_MAX) over.abort(new Error('no name server answers'))
      else timer = setTimeout(count, TURN_MS)
    }
    this.#turns = 0
    let timer = setTimeout(count, TURN_MS)
    try {
      const { message } = await askOverUdp({ servers, query, ...tries }, tally, over.signal)
      if (message === undefined || !isRefusal(message)) this.noteAnswer()
    } catch (error) {
      // What cannot be read is an answer, too.
      if (error instanceof TargetFailure && error.failure.code === 'DNS_MALFORMED')
        this.noteAnswer()
    } finally {
      clearTimeout(timer)
    }
    if (this.#answeredMs < this.#askedMs) this.#silentMs = performance.now()
  }
}

function isRefusal({ Status }: DnsMessage): boolean {
  return Status === 'REFUSED'
}

function isWithoutAnswer(error: unknown): boolean {
  if (error instanceof DeadlineReached) return true
  return error instanceof TargetFailure && NO_ANSWER.has(error.failure.code)
}

/** The problem, with what became of the question. */
function because(problem: Failure, error: unknown): TargetFailure {
  const { code, details } = error instanceof TargetFailure ? error.failure : { code: 'TIMEOUT_DNS' }
  const reason = details?.['reason'] ?? code
  return new TargetFailure({ ...problem, details: { ...details, ...problem.details, reason } })
}

/** Resolves with the work, or as soon as the signal is aborted. */
async function orAborted(work: Promise<void>, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return
  const { promise, resolve } = Promise.withResolvers<void>()
  const onAbort = () => resolve()
  signal.addEventListener('abort', onAbort)
  await Promise.race([work, promise])
  signal.removeEventListener('abort', onAbort)
}

/** Those of resolv.conf, as of now. */
export const systemServers = watchedFile(RESOLV_CONF, (text): SystemServers => {
  const { servers, timeoutMs, attempts } = parseResolvConf(text)
  return {
    servers: servers.map((address) => ({ address, port: DNS_PORTS.UDP })),
    timeoutMs,
    attempts,
  }
})

/** What all monitors of this process have learnt of them. */
export const systemNameServers = createNameServers(systemServers)
