// System calls of Linux for the sandbox of user code, which Node does not offer: numbers and structures are
// those of the kernel's uapi headers, for x86-64 and arm64.
import { readFileSync } from 'node:fs'
import { constants } from 'node:os'
import koffi from 'koffi'
import { SystemCallError } from './system-call-error.ts'

/** Numbers of system calls on x86-64 and arm64; -1 where there is none (asm/unistd_64.h, asm-generic/unistd.h). */
const NUMBERS = {
  socket: [41, 198],
  connect: [42, 203],
  bind: [49, 200],
  listen: [50, 201],
  sendto: [44, 206],
  sendmsg: [46, 211],
  socketpair: [53, 199],
  sendmmsg: [307, 269],
  clone: [56, 220],
  fork: [57, -1],
  vfork: [58, -1],
  clone3: [435, 435],
  rt_sigaction: [13, 134],
  kill: [62, 129],
  tkill: [200, 130],
  tgkill: [234, 131],
  rt_sigqueueinfo: [129, 138],
  rt_tgsigqueueinfo: [297, 240],
  pidfd_open: [434, 434],
  pidfd_send_signal: [424, 424],
  pidfd_getfd: [438, 438],
  ptrace: [101, 117],
  process_vm_readv: [310, 270],
  process_vm_writev: [311, 271],
  process_madvise: [440, 440],
  kcmp: [312, 272],
  bpf: [321, 280],
  perf_event_open: [298, 241],
  userfaultfd: [323, 282],
  add_key: [248, 217],
  request_key: [249, 218],
  keyctl: [250, 219],
  shmget: [29, 194],
  semget: [64, 190],
  msgget: [68, 186],
  mq_open: [240, 180],
  io_uring_setup: [425, 425],
  io_uring_enter: [426, 426],
  io_uring_register: [427, 427],
  setns: [308, 268],
  open_by_handle_at: [304, 265],
  mount: [165, 40],
  umount2: [166, 39],
  pivot_root: [155, 41],
  open_tree: [428, 428],
  move_mount: [429, 429],
  fsopen: [430, 430],
  fsconfig: [431, 431],
  fsmount: [432, 432],
  fspick: [433, 433],
  mount_setattr: [442, 442],
  prlimit64: [302, 261],
  setpriority: [141, 140],
  ioprio_set: [251, 30],
  sched_setaffinity: [203, 122],
  sched_setparam: [142, 118],
  sched_setscheduler: [144, 119],
  sched_setattr: [314, 274],
  seccomp: [317, 277],
  setresuid: [117, 147],
  setresgid: [119, 149],
  landlock_create_ruleset: [444, 444],
  landlock_add_rule: [445, 445],
  landlock_restrict_self: [446, 446],
} as const

/** A system call that the sandbox knows by name. */
export type SystemCall = keyof typeof NUMBERS

/** The kernel's name for the architecture of this process (linux/audit.h), and its numbers. */
export interface Architecture {
  audit: number
  numbers: Readonly<Record<SystemCall, number>>
  /** From here on x32 calls begin, which share the architecture's name with x86-64. */
  otherFrom: number | undefined
}

/** Constants of an architecture; undefined where the sandbox is not supported. */
export function architectureOf(name: string): Architecture | undefined {
  if (name === 'x64') return { audit: 0xc000003e, numbers: numbersOn(0), otherFrom: 0x40000000 }
  if (name === 'arm64') return { audit: 0xc00000b7, numbers: numbersOn(1), otherFrom: undefined }
  return undefined
}

function numbersOn(column: 0 | 1): Readonly<Record<SystemCall, number>> {
  const entries = Object.entries(NUMBERS).map(([name, both]) => [name, both[column]])
  return Object.fromEntries(entries) as Record<SystemCall, number>
}

export const { EPERM, ENOENT, ESRCH, EBADF, ECHILD, EAGAIN, EACCES, EINVAL } = constants.errno
export const { EMFILE, ENOSYS, ENOTSOCK, ECONNREFUSED, EAFNOSUPPORT } = constants.errno
export const { EISCONN, EALREADY, EINPROGRESS } = constants.errno

const libc = koffi.load(null)
// Both architectures pass the arguments of a variadic call like those of any other, on Linux.
const syscall2 = libc.func('syscall', 'long', ['long', 'long', 'long'])
const syscall3 = libc.func('syscall', 'long', ['long', 'long', 'long', 'long'])
const syscallBuffer = libc.func('syscall', 'long', ['long', 'void *', 'long', 'long'])
const syscallRule = libc.func('syscall', 'long', ['long', 'long', 'long', 'void *', 'long'])
const syscallLast = libc.func('syscall', 'long', ['long', 'long', 'long', 'void *'])
const prctl5 = libc.func(
  'int prctl(int, unsigned long, unsigned long, unsigned long, unsigned long)',
)
const fcntl3 = libc.func('fcntl', 'int', ['int', 'int', 'long'])

export function errno(): number {
  return koffi.errno()
}

/** The result of a call; throws a SystemCallError where it is negative. */
export function checked(name: string, result: number): number {
  if (result < 0) throw new SystemCallError(name, errno())
  return result
}

const known = architectureOf(process.arch)
const numbers = known?.numbers ?? numbersOn(0)

/** Calls by number with plain arguments. */
export function call(name: SystemCall, a: number, b = 0, c = 0): number {
  return Number(syscall3(numbers[name], a, b, c))
}

export const PR_SET_PDEATHSIG = 1
export const PR_SET_DUMPABLE = 4
export const PR_SET_CHILD_SUBREAPER = 36
export const PR_SET_NO_NEW_PRIVS = 38

/** Changes a property of this process, or thread; throws with the error's number (linux/prctl.h). */
export function prctl(option: number, value: number): void {
  if (Number(prctl5(option, value, 0, 0, 0)) !== 0)
    throw new Error(`prctl ${option}: errno ${errno()}`)
}

const F_SETFD = 2
const F_GETFL = 3
const F_SETFL = 4

/** Marks the descriptor to be closed when the process becomes another program. */
export function closeOnExec(fd: number): void {
  fcntl3(fd, F_SETFD, 1)
}

/** Lets the program that the process becomes inherit the descriptor. */
export function inheritOnExec(fd: number): void {
  fcntl3(fd, F_SETFD, 0)
}

/** The status flags of a descriptor, or -1. */
export function statusFlags(fd: number): number {
  return Number(fcntl3(fd, F_GETFL, 0))
}

export function setStatusFlags(fd: number, flags: number): void {
  fcntl3(fd, F_SETFL, flags)
}

// sys/file.h
const LOCK_EX = 2
const LOCK_NB = 4
const flock = libc.func('int flock(int, int)')

/** Locks an open file or folder (flock(2)): 0, EAGAIN where another process has the lock, or another error number. */
export function lockDescriptor(fd: number): number {
  return flock(fd, LOCK_EX | LOCK_NB) === 0 ? 0 : errno()
}

/** Effective capabilities of this process, one bit each (linux/capability.h). */
export function effectiveCapabilities(): bigint {
  const status = readFileSync('/proc/self/status', 'latin1')
  return BigInt(`0x${/^CapEff:\s*([0-9a-f]+)/m.exec(status)?.[1] ?? '0'}`)
}

/** `LANDLOCK_CREATE_RULESET_VERSION`: the version of Landlock, 0 without it (linux/landlock.h). */
export function landlockVersion(): number {
  return Math.max(0, Number(syscallBuffer(numbers.landlock_create_ruleset, null, 0, 1)))
}

/** A new ruleset from a `struct landlock_ruleset_attr`; its descriptor, or -1. */
export function landlockRuleset(attributes: Buffer): number {
  return Number(syscallBuffer(numbers.landlock_create_ruleset, attributes, attributes.length, 0))
}

/** Adds a `struct landlock_path_beneath_attr`; 0, or -1. */
export function landlockAddPath(ruleset: number, rule: Buffer): number {
  return Number(syscallRule(numbers.landlock_add_rule, ruleset, 1, rule, 0))
}

/** Confines this thread to the ruleset for ever; 0, or -1. */
export function landlockRestrict(ruleset: number): number {
  return Number(syscall2(numbers.landlock_restrict_self, ruleset, 0))
}

/** SECCOMP_SET_MODE_FILTER with a `struct sock_fprog`; the listener's descriptor, or -1. */
export function seccompFilter(flags: number, program: Buffer): number {
  return Number(syscallLast(numbers.seccomp, 1, flags, program))
}

/** The address of a buffer, which must stay referenced. */
export function addressOf(buffer: Buffer): bigint {
  return koffi.address(buffer)
}

/** A function of the C library, by its prototype; its `async` runs in a thread of Node's pool. */
export function libcFunction(prototype: string): ReturnType<typeof libc.func> {
  return libc.func(prototype)
}
