// Launcher: a process that drops all of its privileges, one after the other, and then executes the command.
// The supervisor starts it for one run; its request comes on a descriptor.
import { readdirSync, readSync, writeSync } from 'node:fs'
import { missingRequirementOf, requirementText } from '../requirements.ts'
import { confine, LANDLOCK_SCOPES_FROM } from './landlock.ts'
import type { SandboxLayers, LaunchRequest } from '../request.ts'
import { rankBehindAgent } from '../supervisor/priority.ts'
import {
  addressOf,
  closeOnExec,
  errno,
  inheritOnExec,
  libcFunction,
  prctl,
  PR_SET_NO_NEW_PRIVS,
  PR_SET_PDEATHSIG,
  seccompFilter,
} from '../../network/native/syscalls.ts'
import { sendDescriptor } from '../../network/native/descriptor-passing.ts'
import { openWay } from '../supervisor/mounts.ts'

/** The descriptor of the conversation with the supervisor. */
const SUPERVISOR_FD = 4
/** Standard input, output and error, and messages; Node closes what it starts with on exec. */
const RUN_FDS = [0, 1, 2, 3]
const SIGKILL = 9
const SIGNALS_MAX = 31
const NOT_STARTED = 127
// Flags of SECCOMP_SET_MODE_FILTER, of linux/seccomp.h.
const NEW_LISTENER = 1 << 3
/** Once the supervisor works on a call, only killing signals interrupt it; from Linux 5.19. */
const WAIT_KILLABLE = 1 << 5

const prlimit = libcFunction('int prlimit64(int, int, void *, void *)')
const setSignal = libcFunction('void *signal(int, long)')
const execute = libcFunction('int execve(const char *, const char **, const char **)')

function main(): void {
  closeOnExec(SUPERVISOR_FD)
  const order = JSON.parse(readOrder()) as LaunchRequest
  for (const [resource, bound] of order.resources) limit(resource, bound)
  rankBehindAgent()
  if (order.userId !== undefined) {
    openWay([order.cwd, ...order.landlock.read, ...order.landlock.write], order.userId)
    becomeUser(order.userId)
  }
  enter(order)
  // After the change of user, which would reset it.
  prctl(PR_SET_PDEATHSIG, SIGKILL)
  prctl(PR_SET_NO_NEW_PRIVS, 1)
  const landlock = confine(order.landlock)
  // Node ignores some, and what is ignored stays so in the next program. Nobody answers for it before that.
  for (let signal = 1; signal <= SIGNALS_MAX; signal++) setSignal(signal, 0)
  const listener = filter(order, landlock)
  const layers: SandboxLayers = {
    ownUser: order.userId !== undefined,
    landlock,
    network: listener !== undefined,
  }
  const missing = order.isolation === 'require' ? missingRequirementOf(layers) : undefined
  if (missing !== undefined) throw new Error(requirementText(missing))
  sendReport({ ready: layers }, listener)
  inheritOnlyRunDescriptors()
  const ifUnenforced = layers.network ? {} : order.environmentUnenforced
  const environment = Object.entries({ ...ifUnenforced, ...order.environment }).map(
    ([name, value]) => `${name}=${value}`,
  )
  execute(order.command, [order.command, ...order.args, null], [...environment, null])
  throw new Error(startFault(order.command, errno()))
}

const EACCES = 13

function startFault(command: string, code: number): string {
  const fix = 'every user has to be able to run it, and to pass through the folders above it'
  return `${command} cannot be started: errno ${code}${code === EACCES ? ` (EACCES): ${fix}` : ''}`
}

/** Closes all other descriptors on exec, even those that the agent was started with. */
function inheritOnlyRunDescriptors(): void {
  for (const name of readdirSync('/proc/self/fd')) closeOnExec(Number(name))
  for (const fd of RUN_FDS) inheritOnExec(fd)
}

/** Reads until the line's end; the supervisor writes one line and keeps the descriptor open. */
function readOrder(): string {
  const parts: Buffer[] = []
  for (;;) {
    const part = Buffer.alloc(65_536)
    const length = readSync(SUPERVISOR_FD, part)
    if (length === 0) throw new Error('supervisor exited')
    parts.push(part.subarray(0, length))
    if (part[length - 1] === 10) return Buffer.concat(parts).toString()
  }
}

function limit(resource: number, bound: number): void {
  const both = Buffer.alloc(16)
  both.writeBigUInt64LE(BigInt(bound), 0)
  both.writeBigUInt64LE(BigInt(bound), 8)
  // A bound that is lower already stays.
  prlimit(0, resource, both, null)
}

function becomeUser(userId: number): void {
  process.setgroups?.([])
  process.setgid?.(userId)
  process.setuid?.(userId)
}

/** As the user of the run, which may be kept out by a folder far above. */
function enter({ cwd, userId }: LaunchRequest): void {
  try {
    process.chdir(cwd)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const fix =
      code === 'EACCES' ? ': all folders above it must let everybody pass (chmod o+x)' : ''
    throw new Error(`user ${userId ?? process.getuid?.()} cannot enter ${cwd} (${code})${fix}`, {
      cause: error,
    })
  }
}

/** Installs the filter; the descriptor on which the supervisor is asked, or undefined where that is refused. */
function filter(order: LaunchRequest, landlock: number): number | undefined {
  const filters = order.filters
  if (filters === undefined) return undefined
  const asking = programOf(landlock >= LANDLOCK_SCOPES_FROM ? filters.scoped : filters.unscoped)
  for (const flags of [NEW_LISTENER | WAIT_KILLABLE, NEW_LISTENER]) {
    const listener = seccompFilter(flags, asking)
    if (listener < 0) continue
    closeOnExec(listener)
    return listener
  }
  seccompFilter(0, programOf(filters.alone))
  return undefined
}

const pinned: Buffer[] = []

/** A `struct sock_fprog` for the instructions. */
function programOf(base64: string): Buffer {
  const instructions = Buffer.from(base64, 'base64')
  const program = Buffer.alloc(16)
  program.writeUInt16LE(instructions.length / 8, 0)
  program.writeBigUInt64LE(addressOf(instructions), 8)
  pinned.push(instructions)
  return program
}

function sendReport(report: object, descriptor: number | undefined): void {
  const line = Buffer.from(`${JSON.stringify(report)}\n`)
  if (descriptor === undefined) writeSync(SUPERVISOR_FD, line)
  else sendDescriptor(SUPERVISOR_FD, line, descriptor)
}

try {
  main()
} catch (error) {
  sendReport({ problem: (error as Error).message }, undefined)
  process.exit(NOT_STARTED)
}
