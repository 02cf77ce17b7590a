// All echoes of one address family, of all monitors: they share a few sockets (usually one), one wait and
// one send rate.
import { ICMP_LIMITS } from './definition.ts'
import { failure } from '../../contract/failure.ts'
import type { Family } from '../../network/dial.ts'
import { EchoSocket, type Echo } from './echo-socket.ts'
import { localError } from './errors.ts'
import { openIcmpSocket } from '../../network/native/icmp-socket.ts'
import { SystemCallError } from '../../network/native/system-call-error.ts'
import { loadNative, type Native } from '../../network/native/native.ts'
import { TargetFailure, targetFailure } from '../../network/target-failure.ts'

const exchanges = new Map<Family, Promise<EchoExchange>>()

/** The exchange of a family, made at first use. Rejects with TargetFailure (CHECK_TYPE_UNSUPPORTED). */
export function echoExchange(family: Family): Promise<EchoExchange> {
  const exchange = exchanges.get(family) ?? createExchange(family)
  exchanges.set(family, exchange)
  return exchange
}

async function createExchange(family: Family): Promise<EchoExchange> {
  try {
    return new EchoExchange(await loadNative(), family)
  } catch (error) {
    const message = `this agent cannot run ICMP monitors: ${(error as Error).message}`
    throw targetFailure('CHECK_TYPE_UNSUPPORTED', message)
  }
}

/** Echoes per burst and interval of the bursts, so that no packet queue overflows. */
const BURST = 64
const BURST_MS = 1
/** With this many outstanding echoes, replies are read at intervals, which is cheaper than one by one. */
const GATHER_FROM = 16
const GATHER_MS = 2
/**
 * Delay until the kernel timestamps packets on arrival; until then it timestamps them when they are read,
 * which lengthens round trips.
 */
const STAMPS_BEGIN_MS = 5
/** Idle time after which the sockets are closed. */
const IDLE_MS = 5000

/** Sends echoes and receives their replies. */
export class EchoExchange {
  readonly native: Native
  readonly #family: Family
  readonly #sockets: EchoSocket[] = []
  /** Echoes waiting for the next burst, oldest first. */
  readonly #queue = new Set<Echo>()
  #openedAtMs = 0
  #burstLeft = BURST
  #burstBeganMs = 0
  #burstTimer: NodeJS.Timeout | undefined
  #gatherTimer: NodeJS.Timeout | undefined
  #idleTimer: NodeJS.Timeout | undefined
  #isLookedFor = false

  constructor(native: Native, family: Family) {
    this.native = native
    this.#family = family
  }

  /** Kind of socket; undefined before the first echo. */
  get mode(): 'datagram' | 'raw' | undefined {
    return this.#sockets[0]?.mode
  }

  /** Sends the echo now or as soon as the send rate allows; its run is notified, possibly before this returns. */
  send(echo: Echo): void {
    clearTimeout(this.#idleTimer)
    this.#idleTimer = undefined
    if (this.#queue.size === 0 && this.#transmit(echo)) return
    this.#queue.add(echo)
    this.#pace()
  }

  /** Returns false if the echo cannot be sent now. */
  #transmit(echo: Echo): boolean {
    const nowMs = performance.now()
    if (nowMs - this.#burstBeganMs >= BURST_MS) {
      this.#burstBeganMs = nowMs
      this.#burstLeft = BURST
    }
    if (this.#burstLeft === 0) return false
    try {
      const socket = this.#socketFor(echo)
      if (performance.now() - this.#openedAtMs < STAMPS_BEGIN_MS) return false
      if (socket === undefined) return false
      this.#burstLeft--
      const sending = socket.send(echo)
      if (sending === 'busy') {
        this.#burstLeft = 0
        return false
      }
      if (sending === 'refused') echo.run.settled(echo)
      else this.#lookSoon()
    } catch (error) {
      refuse(echo, error)
    }
    return true
  }

  #socketFor({ settings }: Echo): EchoSocket | undefined {
    const free = this.#sockets.find((socket) => socket.hasRoomFor(settings))
    if (free !== undefined || this.#sockets.length >= ICMP_LIMITS.icmpSocketsMax) return free
    try {
      return this.#open()
    } catch (error) {
      if (this.#sockets.length === 0) throw error
      return undefined
    }
  }

  #open(): EchoSocket {
    const icmp = openIcmpSocket(this.native, this.#family)
    try {
      const socket = new EchoSocket(this.native, icmp, () => this.#wait())
      if (this.#sockets.length === 0) this.#openedAtMs = performance.now()
      this.#sockets.push(socket)
      return socket
    } catch (error) {
      icmp.socket.close()
      throw error
    }
  }

  /** Sends the queue in bursts. */
  #pace(): void {
    if (this.#burstTimer !== undefined || this.#queue.size === 0) return
    this.#burstTimer = setTimeout(() => {
      this.#burstTimer = undefined
      for (const echo of this.#queue) {
        if (!this.#transmit(echo)) break
        this.#queue.delete(echo)
      }
      this.#pace()
    }, BURST_MS)
  }

  /** Reads replies of near hosts at once, without waiting in a thread. */
  #lookSoon(): void {
    if (this.#isLookedFor) return
    this.#isLookedFor = true
    setImmediate(() => {
      this.#isLookedFor = false
      this.drain()
    })
  }

  /** Reads all received packets. */
  drain(): void {
    for (const socket of this.#sockets) if (socket.waiting > 0) socket.drain()
    this.#wait()
  }

  /** Waits for the outstanding echoes in the cheapest way. */
  #wait(): void {
    const waiting = this.#sockets.reduce((sum, socket) => sum + socket.waiting, 0)
    const gathers = waiting >= GATHER_FROM
    for (const socket of this.#sockets) socket.listen(!gathers && socket.waiting > 0)
    if (!gathers || this.#gatherTimer !== undefined) return
    this.#gatherTimer = setTimeout(() => {
      this.#gatherTimer = undefined
      this.drain()
    }, GATHER_MS)
  }

  /** Marks these echoes as timed out. */
  lose(echoes: readonly Echo[]): void {
    for (const echo of echoes) echo.socket?.lose(echo)
    this.#wait()
  }

  /** Removes the echoes of an ended run. */
  forget(echoes: readonly Echo[]): void {
    for (const echo of echoes) {
      if (echo.state === 'unsent') this.#queue.delete(echo)
      echo.socket?.forget(echo)
    }
    this.#rest()
  }

  /** Closes the sockets after the idle time. */
  #rest(): void {
    if (this.#idleTimer !== undefined || this.#queue.size > 0) return
    if (!this.#sockets.every(({ isIdle }) => isIdle)) return
    this.#wait()
    this.#idleTimer = setTimeout(() => this.#close(), IDLE_MS).unref()
  }

  #close(): void {
    this.#idleTimer = undefined
    for (const socket of this.#sockets.splice(0)) socket.close()
  }
}

/** Records the error on the echo: an error thrown from a timer cannot be caught. */
function refuse(echo: Echo, error: unknown): void {
  echo.state = 'refused'
  if (error instanceof SystemCallError) {
    echo.error = localError(error.errno, echo.to.address)
  } else {
    const own = error instanceof TargetFailure ? error.failure : failure('INTERNAL', String(error))
    echo.error = { code: own.code, name: `not sent: ${own.code}`, own }
  }
  echo.run.settled(echo)
}
