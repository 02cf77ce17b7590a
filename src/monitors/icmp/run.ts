// One run of echoes to one address: sends them at their times, waits for each until its timeout, and counts
// the replies.
import type { IcmpRequest } from './definition.ts'
import {
  unsentEcho,
  wasTried,
  type Echo,
  type EchoOwner,
  type EchoSettings,
} from './echo-socket.ts'
import type { EchoExchange } from './exchange.ts'
import type { SocketAddress } from '../../network/native/socket-address.ts'

/** Echoes to send. */
export type EchoOrder = EchoSettings & Pick<IcmpRequest, 'pingCount' | 'intervalMs' | 'timeoutMs'>

/** A run of echoes, started by its constructor. */
export class EchoRun implements EchoOwner {
  /** All echoes of the run, in the order of sending. */
  readonly echoes: Echo[] = []
  duplicates = 0
  /** Replies received after the reply to a later echo. */
  outOfOrder = 0
  late = 0
  readonly #exchange: EchoExchange
  readonly #to: SocketAddress
  readonly #order: EchoOrder
  readonly #signal: AbortSignal
  readonly #startedAtMs = performance.now()
  readonly #ending = Promise.withResolvers<void>()
  #timer: NodeJS.Timeout | undefined
  #highest = -1
  #isOver = false

  constructor(exchange: EchoExchange, to: SocketAddress, order: EchoOrder, signal: AbortSignal) {
    this.#exchange = exchange
    this.#to = to
    this.#order = order
    this.#signal = signal
    signal.addEventListener('abort', this.#abort, { once: true })
    if (signal.aborted) this.#abort()
    else this.#advance()
  }

  /**
   * Resolves when each echo has been answered, refused or lost, or at once when the agent itself cannot
   * send; rejects with the signal's reason as soon as that is aborted.
   */
  get done(): Promise<void> {
    return this.#ending.promise
  }

  readonly #abort = (): void => {
    this.#ending.reject(this.#signal.reason)
    this.#end()
  }

  /** Sends due echoes, expires overdue ones, and schedules the next step. */
  #advance(): void {
    const nowMs = performance.now()
    while (!this.#isOver && this.#nextSendMs() <= nowMs) {
      const { length: index } = this.echoes
      const echo = unsentEcho({ to: this.#to, settings: this.#order, index, run: this })
      this.echoes.push(echo)
      this.#exchange.send(echo)
    }
    if (!this.#isOver) this.#giveUpUntil(nowMs)
    if (this.#isOver) return
    const nextAtMs = Math.min(this.#nextSendMs(), this.#nextLossMs())
    const waitMs = Math.max(0, Math.ceil(nextAtMs - performance.now()))
    this.#timer = setTimeout(() => this.#advance(), waitMs)
  }

  #nextSendMs(): number {
    const { pingCount, intervalMs } = this.#order
    const { length } = this.echoes
    return length < pingCount ? this.#startedAtMs + length * intervalMs : Infinity
  }

  #nextLossMs(): number {
    const oldest = this.echoes.find(isOpen)
    if (oldest === undefined) return Infinity
    // One that the pace holds back has all its time before it.
    const sinceMs = oldest.state === 'waiting' ? oldest.sentAtMs : performance.now()
    return sinceMs + this.#order.timeoutMs
  }

  #giveUpUntil(nowMs: number): void {
    const isOverdue = ({ state, sentAtMs }: Echo) =>
      state === 'waiting' && sentAtMs + this.#order.timeoutMs <= nowMs
    if (!this.echoes.some(isOverdue)) return
    // Received packets that are not read yet are not lost.
    this.#exchange.drain()
    this.#exchange.lose(this.echoes.filter(isOverdue))
    this.#endWhenSettled()
  }

  settled(echo: Echo): void {
    if (echo.state === 'answered') {
      if (echo.index < this.#highest) this.outOfOrder++
      else this.#highest = echo.index
    }
    // More echoes would show nothing about the target.
    if (echo.state !== 'answered' && !wasTried(echo)) this.#end()
    else this.#endWhenSettled()
  }

  #endWhenSettled(): void {
    if (this.echoes.length === this.#order.pingCount && !this.echoes.some(isOpen)) this.#end()
  }

  #end(): void {
    if (this.#isOver) return
    this.#isOver = true
    clearTimeout(this.#timer)
    this.#signal.removeEventListener('abort', this.#abort)
    this.#exchange.forget(this.echoes)
    this.#ending.resolve()
  }
}

function isOpen({ state }: Echo): boolean {
  return state === 'waiting' || state === 'unsent'
}
