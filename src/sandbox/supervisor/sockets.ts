// Sockets of a run, which the supervisor makes and connects. It has its own descriptor of each, since systems may
// forbid to take one from another process, as Docker's default seccomp profile does.
import { closeSync, readdirSync, readlinkSync } from 'node:fs'
import {
  call,
  EBADF,
  EISCONN,
  EMFILE,
  ENOTSOCK,
  EPERM,
  errno,
  libcFunction,
} from '../../network/native/syscalls.ts'
import type { Answer, Listener, Question, Watched } from './listener.ts'
import { asUser, onlyAsUser, type Descendants } from './processes.ts'

const getpeername = libcFunction('int getpeername(int, void *, void *)')

/** How connecting went: it has connected, may be tried again, or goes on by itself. */
type Connecting = 'connected' | 'failed' | 'under way'

const SOCK_CLOEXEC = 0o2000000
/** Sockets of a run that are not connected yet. */
const SOCKETS_MAX = 1024
/** Interval of the look for sockets that the run has closed. */
const LOOK_MS = 500
/** A socket on its way from process to process is in none for a moment. */
const MISSED_MAX = 2

interface ConnectingSocket {
  socket: number
  /** Looks in a row that did not find it in any process. */
  missed: number
  watched?: Watched
}

/**
 * The run's sockets that are not connected yet. A socket is one thing however many descriptors lead to it, and the system
 * names it by its inode. So the supervisor connects its own descriptor of the caller's socket, and options, flags and
 * what waits for it stay as the caller left them. It lets go of it once that has connected, listens, or is closed, for a
 * socket ends with its last descriptor.
 */
export class RunSockets {
  readonly #listener: Listener
  readonly #descendants: Descendants
  readonly #userId: number | undefined
  readonly #sockets = new Map<string, ConnectingSocket>()
  #timer: NodeJS.Timeout | undefined

  constructor(run: { listener: Listener; descendants: Descendants; userId: number | undefined }) {
    this.#listener = run.listener
    this.#descendants = run.descendants
    this.#userId = run.userId
  }

  /** Answers socket(domain, type, protocol): with one of the run's user, in the supervisor's network. */
  make(question: Question): Answer | undefined {
    // In a network of its own it reaches nobody, and what it makes itself is never connected.
    if (!this.#isInOurNetwork(question.thread)) return 'continue'
    if (this.#sockets.size >= SOCKETS_MAX) this.#look(1)
    if (this.#sockets.size >= SOCKETS_MAX) return { error: EMFILE }
    const [domain, type, protocol] = question.arguments.map((one) => Number(BigInt.asIntN(32, one)))
    const socket = onlyAsUser(this.#userId, () => {
      const made = call('socket', domain!, type! | SOCK_CLOEXEC, protocol)
      return made < 0 ? -errno() : made
    })
    if (socket < 0) return { error: -socket }
    const answer = this.#listener.give(question.id, socket, type! & SOCK_CLOEXEC)
    if (answer !== undefined && 'error' in (answer as object)) closeSync(socket)
    else this.#hold(socket)
    return answer
  }

  /** The call bind(): what the run has closed must not keep its address. */
  bound(): Answer {
    this.#look(1)
    return 'continue'
  }

  /** The call listen(): such a socket is never connected, and its port goes when the run closes it. */
  listens({ thread, arguments: given }: Question): Answer {
    const name = this.#nameOf(thread, given[0]!)
    if (name !== undefined) this.#drop(name)
    return 'continue'
  }

  /** The caller's own socket, or what the call returns instead. */
  find({ thread, arguments: given }: Question): { socket: number } | { error: number } {
    const name = this.#nameOf(thread, given[0]!)
    if (name === undefined) return { error: EPERM }
    if (name === '') return { error: EBADF }
    if (!name.startsWith('socket:')) return { error: ENOTSOCK }
    const entry = this.#sockets.get(name)
    return entry === undefined ? { error: EISCONN } : { socket: entry.socket }
  }

  /** To be called once for each that was found. */
  release(socket: number, how: Connecting): void {
    const name = nameOfOwn(socket)
    const entry = this.#sockets.get(name)
    if (entry === undefined) return
    if (how === 'connected') this.#drop(name)
    else if (how === 'under way') this.#await(name, entry)
  }

  close(): void {
    clearInterval(this.#timer)
    for (const name of this.#sockets.keys()) this.#drop(name)
  }

  #hold(socket: number): void {
    this.#sockets.set(nameOfOwn(socket), { socket, missed: 0 })
    this.#timer ??= setInterval(() => this.#look(MISSED_MAX), LOOK_MS)
  }

  /** Lets go when it has connected; its error, if any, is left for the run to read. */
  #await(name: string, entry: ConnectingSocket): void {
    if (entry.watched !== undefined) return
    entry.watched = {
      fd: entry.socket,
      ready: () => {
        delete entry.watched
        if (this.#sockets.get(name) === entry && isConnected(entry.socket)) this.#drop(name)
      },
    }
    this.#listener.watch(entry.watched)
  }

  #drop(name: string): void {
    const entry = this.#sockets.get(name)
    if (entry === undefined) return
    this.#sockets.delete(name)
    if (entry.watched !== undefined) this.#listener.forget(entry.watched)
    closeSync(entry.socket)
    if (this.#sockets.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  /** Drops what so many looks in a row did not find in the run. */
  #look(missedMax: number): void {
    if (this.#sockets.size === 0) return
    const found = new Set<string>()
    for (const { pid } of this.#descendants.look()) {
      const names = asUser(this.#userId, () => socketsOf(pid))
      // It may have any of them.
      if (names === undefined) return
      for (const name of names) found.add(name)
    }
    for (const [name, entry] of this.#sockets) {
      entry.missed = found.has(name) ? 0 : entry.missed + 1
      if (entry.missed >= missedMax) this.#drop(name)
    }
  }

  #nameOf(thread: number, descriptor: bigint): string | undefined {
    const path = `/proc/${thread}/fd/${Number(descriptor & 0xffffffffn)}`
    return asUser(this.#userId, () => linkOf(path))
  }

  #isInOurNetwork(thread: number): boolean {
    const theirs = asUser(this.#userId, () => linkOf(`/proc/${thread}/ns/net`))
    return theirs === readlinkSync('/proc/self/ns/net')
  }
}

const nameOfOwn = (socket: number) => readlinkSync(`/proc/self/fd/${socket}`)

/** What a link of /proc says; '' where there is none, undefined where it may not be read. */
function linkOf(path: string): string | undefined {
  try {
    return readlinkSync(path)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT' ? '' : undefined
  }
}

/** The sockets of a process, none when it has gone; undefined where it may not be looked into. */
function socketsOf(pid: number): string[] | undefined {
  try {
    const names = readdirSync(`/proc/${pid}/fd`).map((fd) => linkOf(`/proc/${pid}/fd/${fd}`))
    // Some may list what they may not read.
    if (names.includes(undefined)) return undefined
    return names.filter((name) => name?.startsWith('socket:') === true) as string[]
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return code === 'ENOENT' || code === 'ESRCH' ? [] : undefined
  }
}

function isConnected(socket: number): boolean {
  const address = Buffer.alloc(128)
  const length = Buffer.alloc(4)
  length.writeInt32LE(address.length)
  return Number(getpeername(socket, address, length)) === 0
}
