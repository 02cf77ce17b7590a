// The filter in front of every system call of user code: classic BPF as seccomp takes it. What would
// lead around the sandbox is refused by the kernel; connecting, forking and signalling are asked of the supervisor.
import {
  EACCES,
  EAFNOSUPPORT,
  ENOSYS,
  EPERM,
  type Architecture,
  type SystemCall,
} from '../../network/native/syscalls.ts'

// Instructions, of linux/bpf_common.h.
const LOAD = 0x20 // BPF_LD | BPF_W | BPF_ABS
const IF_EQUAL = 0x15 // BPF_JMP | BPF_JEQ | BPF_K
const IF_AT_LEAST = 0x35 // BPF_JMP | BPF_JGE | BPF_K
const IF_ANY_BIT = 0x45 // BPF_JMP | BPF_JSET | BPF_K
const AND = 0x54 // BPF_ALU | BPF_AND | BPF_K
const RETURN = 0x06 // BPF_RET | BPF_K

// Answers, of linux/seccomp.h.
const ALLOW = 0x7fff0000
const ASK_SUPERVISOR = 0x7fc00000
const refuse = (errno: number) => 0x00050000 | errno

// Places in struct seccomp_data, of linux/seccomp.h; arguments are little-endian, the low half first.
const NUMBER_AT = 0
const ARCHITECTURE_AT = 4
const argumentAt = (index: number) => 16 + 8 * index

const AF_UNIX = 1
const AF_INET = 2
const AF_INET6 = 10
const AF_NETLINK = 16
const SOCK_STREAM = 1
const SOCK_SEQPACKET = 5
const SOCK_TYPE_MASK = 0xf
const IPPROTO_TCP = 6
const MSG_FASTOPEN = 0x20000000
const CLONE_THREAD = 0x10000
const SIGCHLD = 17
const EPROTONOSUPPORT = 93
const EOPNOTSUPP = 95

type Instruction = readonly [code: number, jumpTrue: number, jumpFalse: number, value: number]

/** Calls that no script needs, and that reach other processes, the kernel, or outlive the run. */
const REFUSED: readonly (readonly [errno: number, calls: readonly SystemCall[]])[] = [
  [EPERM, ['ptrace', 'process_vm_readv', 'process_vm_writev', 'process_madvise', 'kcmp']],
  [EPERM, ['pidfd_getfd', 'bpf', 'perf_event_open', 'userfaultfd', 'setns', 'open_by_handle_at']],
  [EPERM, ['add_key', 'request_key', 'keyctl', 'shmget', 'semget', 'msgget', 'mq_open']],
  [EPERM, ['mount', 'umount2', 'pivot_root', 'open_tree', 'move_mount', 'mount_setattr']],
  [EPERM, ['fsopen', 'fsconfig', 'fsmount', 'fspick']],
  // Sends and connects without a system call each; programs fall back to those.
  [ENOSYS, ['io_uring_setup', 'io_uring_enter', 'io_uring_register']],
  // Its arguments lie in memory, where no filter can look; the C library falls back to clone.
  [ENOSYS, ['clone3']],
]

const SIGNALLING: readonly SystemCall[] = [
  'kill',
  'tkill',
  'tgkill',
  'rt_sigqueueinfo',
  'rt_tgsigqueueinfo',
  'pidfd_open',
  'pidfd_send_signal',
]

/** Calls that change bounds and precedence of the process in their first argument; 0 is the caller's own. */
const STEERING: readonly SystemCall[] = [
  'prlimit64',
  'sched_setaffinity',
  'sched_setparam',
  'sched_setscheduler',
  'sched_setattr',
]
/** The same, of the process in the second argument, where the first says that it is one and not a user. */
const STEERING_KINDS: readonly (readonly [call: SystemCall, ofProcess: number])[] = [
  ['setpriority', 0], // PRIO_PROCESS
  ['ioprio_set', 1], // IOPRIO_WHO_PROCESS
]

/** What the filter is to hold. */
export interface FilterOptions {
  /** Ask the supervisor about signals; not needed where Landlock keeps them within the run. */
  signals: boolean
  /** A supervisor can be asked; else what would be asked is allowed. */
  supervisor: boolean
}

/** The filter for an architecture, as an array of `struct sock_filter`. */
export function sandboxFilter(architecture: Architecture, options: FilterOptions): Buffer {
  const { numbers, audit, otherFrom } = architecture
  const ask = options.supervisor ? ASK_SUPERVISOR : ALLOW
  const program: Instruction[] = [
    [LOAD, 0, 0, ARCHITECTURE_AT],
    [IF_EQUAL, 1, 0, audit],
    [RETURN, 0, 0, refuse(EPERM)],
    [LOAD, 0, 0, NUMBER_AT],
  ]
  if (otherFrom !== undefined) {
    program.push([IF_AT_LEAST, 0, 1, otherFrom], [RETURN, 0, 0, refuse(EPERM)])
  }
  const on = (name: SystemCall, block: readonly Instruction[]) => {
    if (numbers[name] < 0) return
    program.push([IF_EQUAL, 0, block.length, numbers[name]], ...block)
  }
  for (const [errno, calls] of REFUSED) {
    for (const name of calls) on(name, [[RETURN, 0, 0, refuse(errno)]])
  }
  on('socket', socketBlock(ask))
  on('socketpair', SOCKET_PAIR)
  for (const name of ['connect', 'bind', 'listen', 'fork', 'vfork'] as const) {
    on(name, [[RETURN, 0, 0, ask]])
  }
  on('sendto', withoutFastOpen(3))
  on('sendmsg', withoutFastOpen(2))
  on('sendmmsg', withoutFastOpen(3))
  on('clone', [
    [LOAD, 0, 0, argumentAt(0)],
    [IF_ANY_BIT, 0, 1, CLONE_THREAD],
    [RETURN, 0, 0, ALLOW],
    [RETURN, 0, 0, ask],
  ])
  // Signals interrupt a thread that waits for the supervisor, and SIGCHLD comes with forking: see `makeRestartable`.
  on('rt_sigaction', [
    [LOAD, 0, 0, argumentAt(0)],
    [IF_EQUAL, 0, 1, SIGCHLD],
    [RETURN, 0, 0, ask],
    [RETURN, 0, 0, ALLOW],
  ])
  // Without a supervisor to ask, other processes are out of reach.
  const askOrRefuse = options.supervisor ? ASK_SUPERVISOR : refuse(EPERM)
  for (const name of STEERING) on(name, ownOr(0, askOrRefuse))
  for (const [name, ofProcess] of STEERING_KINDS) {
    on(name, [
      [LOAD, 0, 0, argumentAt(0)],
      [IF_EQUAL, 1, 0, ofProcess],
      [RETURN, 0, 0, refuse(EPERM)],
      ...ownOr(1, askOrRefuse),
    ])
  }
  if (options.signals) for (const name of SIGNALLING) on(name, [[RETURN, 0, 0, ask]])
  program.push([RETURN, 0, 0, ALLOW])
  return assembled(program)
}

/**
 * Sockets of TCP, of the local system by stream, and the kernel's list of interfaces. A datagram socket can
 * send to anybody without connecting, with the address in memory where no filter can look: none is given.
 * The supervisor makes those that connect, where there is one.
 */
const socketBlock = (ask: number): readonly Instruction[] => [
  [LOAD, 0, 0, argumentAt(0)],
  [IF_EQUAL, 7, 0, AF_UNIX],
  [IF_EQUAL, 11, 0, AF_INET],
  [IF_EQUAL, 10, 0, AF_INET6],
  [IF_EQUAL, 1, 0, AF_NETLINK],
  [RETURN, 0, 0, refuse(EAFNOSUPPORT)],
  [LOAD, 0, 0, argumentAt(2)],
  [IF_EQUAL, 15, 0, 0], // NETLINK_ROUTE
  [RETURN, 0, 0, refuse(EPROTONOSUPPORT)],
  // AF_UNIX
  [LOAD, 0, 0, argumentAt(1)],
  [AND, 0, 0, SOCK_TYPE_MASK],
  [IF_EQUAL, 10, 0, SOCK_STREAM],
  [IF_EQUAL, 9, 0, SOCK_SEQPACKET],
  [RETURN, 0, 0, refuse(EACCES)],
  // AF_INET, AF_INET6
  [LOAD, 0, 0, argumentAt(1)],
  [AND, 0, 0, SOCK_TYPE_MASK],
  [IF_EQUAL, 1, 0, SOCK_STREAM],
  [RETURN, 0, 0, refuse(EACCES)],
  [LOAD, 0, 0, argumentAt(2)],
  [IF_EQUAL, 2, 0, 0],
  [IF_EQUAL, 1, 0, IPPROTO_TCP],
  [RETURN, 0, 0, refuse(EPROTONOSUPPORT)],
  [RETURN, 0, 0, ask],
  [RETURN, 0, 0, ALLOW],
]

/** Pairs by stream or sequenced packet; a pair of datagram sockets can send to others. */
const SOCKET_PAIR: readonly Instruction[] = [
  [LOAD, 0, 0, argumentAt(1)],
  [AND, 0, 0, SOCK_TYPE_MASK],
  [IF_EQUAL, 2, 0, SOCK_STREAM],
  [IF_EQUAL, 1, 0, SOCK_SEQPACKET],
  [RETURN, 0, 0, refuse(EACCES)],
  [RETURN, 0, 0, ALLOW],
]

/** Allows it for 0, the caller itself. */
function ownOr(index: number, answer: number): readonly Instruction[] {
  return [
    [LOAD, 0, 0, argumentAt(index)],
    [IF_EQUAL, 0, 1, 0],
    [RETURN, 0, 0, ALLOW],
    [RETURN, 0, 0, answer],
  ]
}

/** Sending must not connect on the way (TCP fast open). */
function withoutFastOpen(flagsIndex: number): readonly Instruction[] {
  return [
    [LOAD, 0, 0, argumentAt(flagsIndex)],
    [IF_ANY_BIT, 0, 1, MSG_FASTOPEN],
    [RETURN, 0, 0, refuse(EOPNOTSUPP)],
    [RETURN, 0, 0, ALLOW],
  ]
}

function assembled(program: readonly Instruction[]): Buffer {
  const bytes = Buffer.alloc(8 * program.length)
  program.forEach(([code, jumpTrue, jumpFalse, value], index) => {
    bytes.writeUInt16LE(code, 8 * index)
    bytes.writeUInt8(jumpTrue, 8 * index + 2)
    bytes.writeUInt8(jumpFalse, 8 * index + 3)
    bytes.writeUInt32LE(value >>> 0, 8 * index + 4)
  })
  return bytes
}
