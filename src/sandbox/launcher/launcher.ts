// Launcher: a process that drops all of its privileges, one after the other, and then executes the command.
// The supervisor starts it for one run; its request comes on a descriptor.
import { readdirSync, readSync, writeSync } from 'node:fs'
import { missingRequirementOf, requirementText } from '../requirements.ts'
import { sandboxFilter, type FilterOptions } from './filter.ts'
import { confine, LANDLOCK_SCOPES_FROM, pathsOf } from './landlock.ts'
import type { LaunchReport, SandboxLayers, SupervisorRequest } from '../request.ts'
import { rankBehindAgent } from '../supervisor/priority.ts'
import {
  addressOf,
  architectureOf,
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

// Of asm-generic/resource.h. No bound on address space: engines reserve far more than they use.
const RLIMIT_CPU = 0
const RLIMIT_FSIZE = 1
const RLIMIT_CORE = 4
const RLIMIT_NPROC = 6
const RLIMIT_NOFILE = 7
/** The kernel counts threads with the processes, and a browser's process has dozens. */
const THREADS_PER_PROCESS = 64

const prlimit = libcFunction('int prlimit64(int, int, void *, void *)')
const setSignal = libcFunction('void *signal(int, long)')
const execute = libcFunction('int execve(const char *, const char **, const char **)')

function main(): void {
  closeOnExec(SUPERVISOR_FD)
  const order = JSON.parse(readOrder()) as SupervisorRequest
  const paths = pathsOf(order)
  limitResources(order)
  rankBehindAgent()
  if (order.userId !== undefined) {
    openWay([order.cwd, ...paths.read, ...paths.write], order.userId)
    becomeUser(order.userId)
  }
  enter(order)
  // After the change of user, which would reset it.
  prctl(PR_SET_PDEATHSIG, SIGKILL)
  prctl(PR_SET_NO_NEW_PRIVS, 1)
  const landlock = confine(paths)
  // Node ignores some, and what is ignored stays so in the next program. Nobody answers for it before that.
  for (let signal = 1; signal <= SIGNALS_MAX; signal++) setSignal(signal, 0)
  const listener = installFilter(landlock)
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
  const fix = 'every user must be able to run it and enter the folders above it'
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

function limitResources({ limits, userId }: SupervisorRequest): void {
  limit(RLIMIT_CPU, Math.ceil(limits.cpuMs / 1000) + 1)
  limit(RLIMIT_FSIZE, limits.fileBytes)
  limit(RLIMIT_CORE, 0)
  limit(RLIMIT_NOFILE, limits.openFiles)
  // Counted per user: only where the run has one of its own.
  if (userId !== undefined) limit(RLIMIT_NPROC, limits.processes * THREADS_PER_PROCESS)
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
function enter({ cwd, userId }: SupervisorRequest): void {
  try {
    process.chdir(cwd)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const fix = code === 'EACCES' ? ': all folders above it need chmod o+x' : ''
    throw new Error(`user ${userId ?? process.getuid?.()} cannot enter ${cwd} (${code})${fix}`, {
      cause: error,
    })
  }
}

/** Installs the filter; the descriptor on which the supervisor is asked, or undefined where that is refused. */
function installFilter(landlock: number): number | undefined {
  // Which filter fits is known only when Landlock is there: it may keep signals within the run.
  const asking = programOf({ signals: landlock < LANDLOCK_SCOPES_FROM, supervisor: true })
  if (asking === undefined) return undefined
  for (const flags of [NEW_LISTENER | WAIT_KILLABLE, NEW_LISTENER]) {
    const listener = seccompFilter(flags, asking)
    if (listener < 0) continue
    closeOnExec(listener)
    return listener
  }
  const alone = programOf({ signals: false, supervisor: false })
  if (alone !== undefined) seccompFilter(0, alone)
  return undefined
}

const pinned: Buffer[] = []

/** The filter as a `struct sock_fprog`; undefined on an architecture without one. */
function programOf(options: FilterOptions): Buffer | undefined {
  const architecture = architectureOf(process.arch)
  if (architecture === undefined) return undefined
  const instructions = sandboxFilter(architecture, options)
  const program = Buffer.alloc(16)
  program.writeUInt16LE(instructions.length / 8, 0)
  program.writeBigUInt64LE(addressOf(instructions), 8)
  pinned.push(instructions)
  return program
}

function sendReport(report: LaunchReport, descriptor?: number): void {
  const line = Buffer.from(`${JSON.stringify(report)}\n`)
  if (descriptor === undefined) writeSync(SUPERVISOR_FD, line)
  else sendDescriptor(SUPERVISOR_FD, line, descriptor)
}

try {
  main()
} catch (error) {
  sendReport({ problem: (error as Error).message })
  process.exit(NOT_STARTED)
}
