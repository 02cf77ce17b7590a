// All echoes of one address family, of all monitors: they share a few sockets (usually one), one wait and
// one send rate.
import { ICMP_LIMITS } from './definition.ts'
import { failure } from '../../contract/failure.ts'
import type { Family } from '../../network/dial.ts'
import { EchoSocket, type Echo } from './echo-socket.ts'
import { localError } from './errors.ts'
import { openIcmpSocket } from '../../network/native/icmp-socket.ts'
import { SystemCallError } from '../../network/native/libc.ts'
import { loadNative, type Native } from '../../network/native/native-socket.ts'
import { watch, type Watch } from '../../network/native/readiness.ts'
import { POLL } from '../../network/native/socket-options.ts'
import { TargetFailure } from '../../network/target-failure.ts'

const exchanges = new Map<Family, Promise<EchoExchange>>()

/** The exchange of a family, made at first use. Rejects with LibcUnavailable. */
export function echoExchange(family: Family): Promise<EchoExchange> {
  let exchange = exchanges.get(family)
  if (exchange === undefined) {
    exchange = loadNative().then((native) => new EchoExchange(native, family))
    exchanges.set(family, exchange)
  }
  return exchange
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

interface Member {
  socket: EchoSocket
  watch: Watch
}

/** Sends echoes and receives their replies. */
export class EchoExchange {
  readonly native: Native
  readonly #family: Family
  readonly #members: Member[] = []
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
    return this.#members[0]?.socket.mode
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
      const member = this.#memberFor(echo)
      if (performance.now() - this.#openedAtMs < STAMPS_BEGIN_MS) return false
      if (member === undefined) return false
      this.#burstLeft--
      const sending = member.socket.send(echo)
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

  #memberFor({ settings }: Echo): Member | undefined {
    const free = this.#members.find(({ socket }) => socket.hasRoomFor(settings))
    if (free !== undefined || this.#members.length >= ICMP_LIMITS.icmpSocketsMax) return free
    try {
      return this.#open()
    } catch (error) {
      if (this.#members.length === 0) throw error
      return undefined
    }
  }

  #open(): Member {
    const icmp = openIcmpSocket(this.native, this.#family)
    let socket: EchoSocket
    try {
      socket = new EchoSocket(this.native, icmp)
    } catch (error) {
      icmp.socket.close()
      throw error
    }
    const member: Member = {
      socket,
      watch: watch(this.native.libc, socket.fd, POLL.in, () => {
        socket.drain()
        this.#wait()
      }),
    }
    member.watch.pause()
    if (this.#members.length === 0) this.#openedAtMs = performance.now()
    this.#members.push(member)
    return member
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
    for (const { socket } of this.#members) if (socket.waiting > 0) socket.drain()
    this.#wait()
  }

  /** Waits for the outstanding echoes in the cheapest way. */
  #wait(): void {
    let waiting = 0
    for (const { socket } of this.#members) waiting += socket.waiting
    const gathers = waiting >= GATHER_FROM
    for (const member of this.#members) {
      if (gathers || member.socket.waiting === 0) member.watch.pause()
      else member.watch.resume()
    }
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
    if (!this.#members.every(({ socket }) => socket.isIdle)) return
    this.#wait()
    this.#idleTimer = setTimeout(() => this.#close(), IDLE_MS).unref()
  }

  #close(): void {
    this.#idleTimer = undefined
    for (const { watch: watched, socket } of this.#members.splice(0)) {
      watched.close()
      socket.close()
    }
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
