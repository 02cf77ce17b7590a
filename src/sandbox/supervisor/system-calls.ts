// Answers of the supervisor to system calls that the kernel asks it about: connecting, forking, signalling.
import { readSync, writeSync } from 'node:fs'
import { faultText } from '../../process/faults/fault.ts'
import type { SupervisorRequest, SupervisorReport } from '../request.ts'
import { architectureOf, EAGAIN, EPERM } from '../../network/native/syscalls.ts'
import { createNetworkPolicy } from '../../network/network-policy.ts'
import { Listener, type Answer, type Question } from './listener.ts'
import type { Meter } from './meter.ts'
import { NameRelay } from './names.ts'
import { answerConnect, nameServers, type AnswerContext } from './network.ts'
import { asUser, isNested, processOf, withMemory, type Descendants } from './processes.ts'
import { RunSockets } from './sockets.ts'

/** Refusals that are reported, at most: a script may try ten thousand times. */
const BLOCKED_REPORTED_MAX = 50

interface Run {
  order: SupervisorRequest
  descendants: Descendants
  meter: Meter
  report(what: SupervisorReport): void
}

const CALLS: ReadonlyMap<number, string> = new Map(
  Object.entries(architectureOf(process.arch)?.numbers ?? {}).map(([name, at]) => [at, name]),
)

/** Answers on the listener until the run has ended, or the listener is closed. */
export function answerQuestions(fd: number, run: Run): Listener {
  const listener = new Listener(fd)
  const { network, folder, userId } = run.order
  let reported = 0
  const servers = nameServers()
  const context: AnswerContext = {
    listener,
    sockets: new RunSockets({ listener, descendants: run.descendants, userId }),
    names: { servers, relay: new NameRelay(servers) },
    policy: createNetworkPolicy(network),
    proxyPort: network.proxyPort,
    folder,
    userId,
    blocked(blocked) {
      if (++reported <= BLOCKED_REPORTED_MAX) run.report({ event: 'blocked', blocked })
    },
  }
  void listener
    .run((question) => answer(question, run, context))
    .catch((error: unknown) => {
      process.stderr.write(faultText(error))
    })
    .finally(() => context.sockets.close())
  return listener
}

function answer(question: Question, run: Run, context: AnswerContext): Answer | undefined {
  const name = CALLS.get(question.call)
  switch (name) {
    case 'socket':
      return context.sockets.make(question)
    case 'bind':
      return context.sockets.bound()
    case 'listen':
      return context.sockets.listens(question)
    case 'connect':
      return answerConnect(question, context)
    case 'clone':
    case 'fork':
    case 'vfork':
      // What is looked at lies in registers, which cannot change while the caller waits.
      return run.meter.mayFork() ? 'continue' : { error: EAGAIN }
    case 'rt_sigaction':
      asUser(context.userId, () => makeRestartable(question))
      return 'continue'
    case undefined:
    default:
      return mayReach(name, question, run) ? 'continue' : { error: EPERM }
  }
}

/** Signals, bounds and precedence are for the run's own processes only. Browsers ask for each of their threads. */
function mayReach(name: string | undefined, question: Question, run: Run): boolean {
  const { thread } = question
  const isSecond = name === 'setpriority' || name === 'ioprio_set'
  const target = Number(BigInt.asIntN(32, question.arguments[isSecond ? 1 : 0] ?? 0n))
  // A descriptor of a process: to open it was allowed. The caller's own group: all of it are ours.
  if (name === 'pidfd_send_signal' || target === 0 || target === thread) return true
  // In a namespace of its own below ours it sees, and numbers, nobody else.
  if (isNested(thread)) return true
  if (target === -1) return false
  if (target < 0) return run.descendants.look(true).some(({ group }) => group === -target)
  const process = processOf(target)
  return process > 0 && (process === processOf(thread) || run.descendants.has(process))
}

// A thread that waits for the supervisor's answer is interrupted by a signal that it handles: the kernel restarts the
// call where the handler was set with SA_RESTART, and else a fork fails, which no shell expects. So handlers of SIGCHLD,
// the signal that comes with forking, are always set with that flag.

/** struct sigaction of the kernel (asm/signal.h), the same on x86-64 and arm64: handler, flags, restorer, mask. */
const FLAGS_AT = 8
const HEAD_BYTES = 16
const SA_RESTART = 0x10000000n
/** SIG_DFL and SIG_IGN: nothing is interrupted. */
const NO_HANDLERS: ReadonlySet<bigint> = new Set([0n, 1n])

/** Adds the flag to what the caller of rt_sigaction(2) is about to set; true where its memory could be looked at. */
function makeRestartable({ thread, arguments: given }: Question): true | undefined {
  const at = given[1] ?? 0n
  if (at === 0n) return true
  return withMemory(thread, 'r+', (memory) => {
    const head = Buffer.alloc(HEAD_BYTES)
    if (readSync(memory, head, 0, HEAD_BYTES, at) !== HEAD_BYTES) return true
    const flags = head.readBigUInt64LE(FLAGS_AT)
    if (NO_HANDLERS.has(head.readBigUInt64LE(0)) || (flags & SA_RESTART) !== 0n) return true
    head.writeBigUInt64LE(flags | SA_RESTART, FLAGS_AT)
    writeSync(memory, head, FLAGS_AT, HEAD_BYTES - FLAGS_AT, Number(at) + FLAGS_AT)
    return true
  })
}
