// A thread that waits for the supervisor's answer is interrupted by a signal that it handles: the kernel then restarts the
// call where the handler was set with SA_RESTART, and else the call fails. No fork fails that way where nobody is
// asked, and no shell expects it: the end of one process of a pipeline would keep the next from being born. So
// handlers of SIGCHLD, the signal that comes with forking, are always set with that flag.
import { closeSync, openSync, readSync, writeSync } from 'node:fs'
import type { Question } from './listener.ts'

/** struct sigaction of the kernel (asm/signal.h), the same on x86-64 and arm64: handler, flags, restorer, mask. */
const FLAGS_AT = 8
const HEAD_BYTES = 16
const SA_RESTART = 0x10000000n
/** SIG_DFL and SIG_IGN: nothing is interrupted. */
const NO_HANDLERS: ReadonlySet<bigint> = new Set([0n, 1n])

/** Adds the flag to what the caller of rt_sigaction(2) is about to set; never throws. */
export function makeRestartable({ thread, arguments: given }: Question): void {
  const at = given[1] ?? 0n
  if (at === 0n) return
  try {
    const memory = openSync(`/proc/${thread}/mem`, 'r+')
    try {
      const head = Buffer.alloc(HEAD_BYTES)
      if (readSync(memory, head, 0, HEAD_BYTES, at) !== HEAD_BYTES) return
      const flags = head.readBigUInt64LE(FLAGS_AT)
      if (NO_HANDLERS.has(head.readBigUInt64LE(0)) || (flags & SA_RESTART) !== 0n) return
      head.writeBigUInt64LE(flags | SA_RESTART, FLAGS_AT)
      writeSync(memory, head, FLAGS_AT, HEAD_BYTES - FLAGS_AT, Number(at) + FLAGS_AT)
    } finally {
      closeSync(memory)
    }
  } catch {
    // It has ended, or may not be written to: then it is as it was.
  }
}
