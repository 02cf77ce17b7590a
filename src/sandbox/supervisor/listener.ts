// The kernel's questions about system calls of a run, and the answers: seccomp(2), user notification.
// Layouts and numbers are those of linux/seccomp.h.
import { readSync, writeSync } from 'node:fs'
import { EINVAL, errno, libcFunction } from '../../network/native/syscalls.ts'

const eventfd = libcFunction('int eventfd(unsigned int, int)')
const poll = libcFunction('int poll(void *, unsigned long, int)')
const ioctl = libcFunction('int ioctl(int, unsigned long, void *)')

// _IOWR('!', 0, 80), _IOWR('!', 1, 24), _IOW('!', 2, 8), _IOW('!', 3, 24) of asm-generic/ioctl.h.
const RECEIVE = 0xc0502100
const SEND = 0xc0182101
const IS_VALID = 0x40082102
const ADD_DESCRIPTOR = 0x40182103
/** The call returns the new descriptor, in one step; from Linux 5.14. */
const ADD_AND_SEND = 2
const NOTIFICATION_BYTES = 80
const RESPONSE_BYTES = 24
const ADDITION_BYTES = 24 // struct seccomp_notif_addfd
const CONTINUE = 1
const EFD_FLAGS = 0o2004000 // EFD_CLOEXEC | EFD_NONBLOCK

const POLLIN = 1
const POLLOUT = 4
const POLLHUP = 16

/** A thread of the run that waits in a system call. */
export interface Question {
  id: bigint
  /** The thread, as the supervisor's own numbers go. */
  thread: number
  call: number
  arguments: readonly bigint[]
}

/** What the call shall return: a value, an error, or what the kernel itself would say. */
export type Answer = { value: number } | { error: number } | 'continue'

/** A descriptor to watch in addition to the listener. */
export interface Watched {
  fd: number
  /** Called once, when it can be written to or has failed. */
  ready(): void
}

/** How long the loop sleeps at most, to notice ends that nothing reports. */
const PAUSE_MS_MAX = 1_000
/** Questions that are received in a row before pending ones are looked at again. */
const ROW_MAX = 64

/** Receives questions and sends answers until no process of the run is left. */
export class Listener {
  readonly #fd: number
  readonly #watched = new Set<Watched>()
  /** Written to when the loop, which sleeps in another thread, has more to watch. */
  readonly #condition = Number(eventfd(0, EFD_FLAGS))
  #isClosed = false

  constructor(fd: number) {
    this.#fd = fd
  }

  /** Asks `ask` each question, undefined meaning that the answer comes later, until nobody can ask any more. */
  async run(ask: (question: Question) => Answer | undefined): Promise<void> {
    while (!this.#isClosed) {
      const watched = [...this.#watched]
      const events = await this.#poll(watched)
      watched.forEach((one, index) => {
        if (events[index + 2] === 0) return
        this.#watched.delete(one)
        one.ready()
      })
      if ((events[1] ?? 0) !== 0) readSync(this.#condition, Buffer.alloc(8))
      const own = events[0] ?? 0
      if ((own & POLLIN) !== 0) this.#row(ask)
      else if ((own & POLLHUP) !== 0) return
    }
  }

  /** Ends the loop; questions are answered no more, and those who asked wait until they are killed. */
  close(): void {
    this.#isClosed = true
    this.#notify()
  }

  watch(one: Watched): void {
    this.#watched.add(one)
    this.#notify()
  }

  /** Watches it no more: it is about to be closed, and what is polled stays open. */
  forget(one: Watched): void {
    if (this.#watched.delete(one)) this.#notify()
  }

  /** Puts our descriptor into the process that asked, as the call's result. Returns an answer still to be sent. */
  give(id: bigint, descriptor: number, flags: number): Answer | undefined {
    const bytes = Buffer.alloc(ADDITION_BYTES)
    bytes.writeBigUInt64LE(id, 0)
    bytes.writeUInt32LE(ADD_AND_SEND, 8)
    bytes.writeUInt32LE(descriptor, 12)
    bytes.writeUInt32LE(flags, 20)
    if (Number(ioctl(this.#fd, ADD_DESCRIPTOR, bytes)) >= 0) return undefined
    if (errno() !== EINVAL) return { error: errno() }
    bytes.writeUInt32LE(0, 8)
    const given = Number(ioctl(this.#fd, ADD_DESCRIPTOR, bytes))
    return given < 0 ? { error: errno() } : { value: given }
  }

  /** Whether the one who asked still waits. To be asked after looking at its memory or descriptors. */
  isValid(id: bigint): boolean {
    const bytes = Buffer.alloc(8)
    bytes.writeBigUInt64LE(id)
    return Number(ioctl(this.#fd, IS_VALID, bytes)) === 0
  }

  /** Sends the answer; no error when the caller has ended meanwhile. */
  answer(id: bigint, answer: Answer): void {
    const bytes = Buffer.alloc(RESPONSE_BYTES)
    bytes.writeBigUInt64LE(id, 0)
    if (answer === 'continue') bytes.writeUInt32LE(CONTINUE, 20)
    else if ('value' in answer) bytes.writeBigInt64LE(BigInt(answer.value), 8)
    else bytes.writeInt32LE(-answer.error, 16)
    ioctl(this.#fd, SEND, bytes)
  }

  #notify(): void {
    const one = Buffer.alloc(8)
    one.writeBigUInt64LE(1n)
    writeSync(this.#condition, one)
  }

  #row(ask: (question: Question) => Answer | undefined): void {
    const one = pollList([{ fd: this.#fd, events: POLLIN }])
    for (let count = 0; count < ROW_MAX && !this.#isClosed; count++) {
      if (count > 0 && Number(poll(one, 1, 0)) <= 0) return
      const question = this.#receive()
      if (question === undefined) return
      const answer = ask(question)
      if (answer !== undefined) this.answer(question.id, answer)
    }
  }

  #receive(): Question | undefined {
    // The kernel insists on zeros.
    const bytes = Buffer.alloc(NOTIFICATION_BYTES)
    if (Number(ioctl(this.#fd, RECEIVE, bytes)) !== 0) return undefined
    return {
      id: bytes.readBigUInt64LE(0),
      thread: bytes.readUInt32LE(8),
      call: bytes.readInt32LE(16),
      arguments: Array.from({ length: 6 }, (_, index) => bytes.readBigUInt64LE(32 + 8 * index)),
    }
  }

  #poll(watched: readonly Watched[]): Promise<number[]> {
    const list = pollList([
      { fd: this.#fd, events: POLLIN },
      { fd: this.#condition, events: POLLIN },
      ...watched.map(({ fd }) => ({ fd, events: POLLOUT })),
    ])
    const count = watched.length + 2
    return new Promise((resolve, reject) => {
      poll.async(list, count, PAUSE_MS_MAX, (error: Error | null) => {
        if (error !== null) reject(error)
        else resolve(Array.from({ length: count }, (_, index) => list.readInt16LE(8 * index + 6)))
      })
    })
  }
}

/** An array of `struct pollfd`. */
function pollList(entries: readonly { fd: number; events: number }[]): Buffer {
  const list = Buffer.alloc(8 * entries.length)
  entries.forEach(({ fd, events }, index) => {
    list.writeInt32LE(fd, 8 * index)
    list.writeInt16LE(events, 8 * index + 4)
  })
  return list
}
