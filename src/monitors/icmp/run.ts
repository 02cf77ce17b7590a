// One run of echoes to one address: sends them at their times, waits for each until its timeout, and counts
// the replies.
import type { Echo, EchoOwner, EchoSettings } from './echo-socket.ts'
import type { EchoExchange } from './exchange.ts'
import { aboutIn, FAILURES } from '../../contract/failure.ts'
import type { SocketAddress } from '../../network/native/socket-address.ts'

/** Echoes to send. */
export interface EchoOrder {
  to: SocketAddress
  count: number
  intervalMs: number
  timeoutMs: number
  settings: EchoSettings
}

/** Outcome of the echoes. */
export interface EchoTally {
  /** All echoes of the run, in the order of sending. */
  echoes: readonly Echo[]
  duplicates: number
  /** Replies received after the reply to a later echo. */
  outOfOrder: number
  /** Replies received after their timeout: they count as lost. */
  late: number
  /** When the first echo was sent, by performance.now(). */
  firstSentAtMs: number | undefined
}

/** A run of echoes, started by its constructor. */
export class EchoRun implements EchoOwner {
  /**
   * Resolves when each echo has been answered, refused or lost, or at once when the agent itself cannot
   * send; rejects with the signal's reason as soon as that is aborted.
   */
  readonly done: Promise<void>
  readonly #exchange: EchoExchange
  readonly #order: EchoOrder
  readonly #signal: AbortSignal
  readonly #echoes: Echo[] = []
  readonly #startedAtMs = performance.now()
  #resolve: () => void = () => undefined
  #reject: (reason: Error) => void = () => undefined
  #timer: NodeJS.Timeout | undefined
  /** The oldest echo that may be outstanding. */
  #oldest = 0
  #unsettled: number
  #highest = -1
  #duplicates = 0
  #outOfOrder = 0
  #late = 0
  #isOver = false

  constructor(exchange: EchoExchange, order: EchoOrder, signal: AbortSignal) {
    this.#exchange = exchange
    this.#order = order
    this.#signal = signal
    this.#unsettled = order.count
    this.done = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
    signal.addEventListener('abort', this.#abort, { once: true })
    if (signal.aborted) this.#abort()
    else this.#advance()
  }

  /** Results so far. */
  get tally(): EchoTally {
    const [first] = this.#echoes
    return {
      echoes: this.#echoes,
      duplicates: this.#duplicates,
      outOfOrder: this.#outOfOrder,
      late: this.#late,
      firstSentAtMs: first?.socket === undefined ? undefined : first.sentAtMs,
    }
  }

  readonly #abort = (): void => {
    this.#end()
    this.#reject(this.#signal.reason as Error)
  }

  /** Sends due echoes, expires overdue ones, and schedules the next step. */
  #advance(): void {
    const { count, intervalMs } = this.#order
    const nowMs = performance.now()
    while (
      !this.#isOver &&
      this.#echoes.length < count &&
      this.#startedAtMs + this.#echoes.length * intervalMs <= nowMs
    ) {
      this.#sendNext()
    }
    if (!this.#isOver) this.#giveUpUntil(nowMs)
    if (this.#isOver) return
    const waitMs = Math.max(0, Math.ceil(this.#nextAtMs() - performance.now()))
    this.#timer = setTimeout(() => this.#advance(), waitMs)
  }

  #sendNext(): void {
    const { to, settings } = this.#order
    const echo: Echo = {
      to,
      settings,
      index: this.#echoes.length,
      run: this,
      state: 'unsent',
      sequence: 0,
      high: 0,
      low: 0,
      sentAtMs: 0,
    }
    this.#echoes.push(echo)
    this.#exchange.send(echo)
  }

  #giveUpUntil(nowMs: number): void {
    const { timeoutMs } = this.#order
    const isOverdue = ({ state, sentAtMs }: Echo) =>
      state === 'waiting' && sentAtMs + timeoutMs <= nowMs
    if (!this.#echoes.some(isOverdue)) return
    // Received packets that are not read yet are not lost.
    this.#exchange.drain()
    const overdue = this.#echoes.filter(isOverdue)
    this.#exchange.lose(overdue)
    this.#unsettled -= overdue.length
    this.#endWhenSettled()
  }

  /** Time of the next step without a reply. */
  #nextAtMs(): number {
    const { count, intervalMs, timeoutMs } = this.#order
    const sendAtMs =
      this.#echoes.length < count
        ? this.#startedAtMs + this.#echoes.length * intervalMs
        : Number.POSITIVE_INFINITY
    while (isDone(this.#echoes[this.#oldest])) this.#oldest++
    const oldest = this.#echoes[this.#oldest]
    // One that the pace holds back has all its time before it.
    const sinceMs = oldest?.state === 'waiting' ? oldest.sentAtMs : performance.now()
    const lostAtMs = oldest === undefined ? Number.POSITIVE_INFINITY : sinceMs + timeoutMs
    return Math.min(sendAtMs, lostAtMs)
  }

  settled(echo: Echo): void {
    this.#unsettled--
    if (echo.state === 'answered') {
      if (echo.index < this.#highest) this.#outOfOrder++
      else this.#highest = echo.index
    } else if (echo.error?.own !== undefined && aboutIn(FAILURES, echo.error.own) === 'agent') {
      // More echoes would show nothing about the target.
      this.#unsettled = 0
    }
    this.#endWhenSettled()
  }

  duplicate(): void {
    this.#duplicates++
  }

  late(): void {
    this.#late++
  }

  #endWhenSettled(): void {
    if (this.#unsettled > 0 || this.#isOver) return
    this.#end()
    this.#resolve()
  }

  #end(): void {
    this.#isOver = true
    clearTimeout(this.#timer)
    this.#signal.removeEventListener('abort', this.#abort)
    this.#exchange.forget(this.#echoes)
  }
}

function isDone(echo: Echo | undefined): boolean {
  return echo !== undefined && echo.state !== 'waiting' && echo.state !== 'unsent'
}
