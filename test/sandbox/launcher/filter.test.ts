// The filter answers every system call, on both architectures, whatever the high halves of arguments hold.
import { describe, expect, test } from 'vitest'
import { sandboxFilter } from '../../../src/sandbox/launcher/filter.ts'
import {
  architectureOf,
  type Architecture,
  type SystemCall,
} from '../../../src/network/native/syscalls.ts'

const ALLOW = 0x7fff0000
const ASK = 0x7fc00000
const refused = (errno: number) => 0x00050000 | errno
const [EPERM, EACCES, ENOSYS, EPROTONOSUPPORT, EOPNOTSUPP, EAFNOSUPPORT] = [1, 13, 38, 93, 95, 97]
const HIGH = 0xdead_beef_0000_0000n

const CALLS: [what: string, name: SystemCall, given: bigint[], answer: number][] = [
  ['TCP over IPv4', 'socket', [2n, 1n, 0n], ASK],
  ['TCP over IPv6, non-blocking', 'socket', [10n, 0o2004001n, 6n], ASK],
  ['UDP over IPv4', 'socket', [2n, 2n, 0n], refused(EACCES)],
  ['UDP over IPv6, close-on-exec', 'socket', [10n, 0o2000002n, 17n], refused(EACCES)],
  ['raw packets', 'socket', [2n, 3n, 1n], refused(EACCES)],
  ['ICMP without privilege', 'socket', [2n, 2n, 1n], refused(EACCES)],
  ['multipath TCP', 'socket', [2n, 1n, 262n], refused(EPROTONOSUPPORT)],
  ['SCTP', 'socket', [10n, 1n, 132n], refused(EPROTONOSUPPORT)],
  ['a local stream', 'socket', [1n, 1n, 0n], ASK],
  ['a local sequence of packets', 'socket', [1n, 5n, 0n], ASK],
  ['a local datagram', 'socket', [1n, 2n, 0n], refused(EACCES)],
  ['the list of interfaces', 'socket', [16n, 3n, 0n], ALLOW],
  ['another list of the kernel', 'socket', [16n, 3n, 15n], refused(EPROTONOSUPPORT)],
  ['link-level packets', 'socket', [17n, 3n, 0n], refused(EAFNOSUPPORT)],
  ['a virtual machine’s host', 'socket', [40n, 1n, 0n], refused(EAFNOSUPPORT)],
  ['the kernel’s ciphers', 'socket', [38n, 5n, 0n], refused(EAFNOSUPPORT)],
  ['a pair of streams', 'socketpair', [1n, 0o2004001n, 0n], ALLOW],
  ['a pair of datagrams', 'socketpair', [1n, 2n, 0n], refused(EACCES)],
  ['an address for a socket', 'bind', [3n, 4096n, 16n], ASK],
  ['connecting', 'connect', [3n, 4096n, 16n], ASK],
  ['sending', 'sendto', [3n, 4096n, 5n, 0x4000n], ALLOW],
  ['sending that connects', 'sendto', [3n, 4096n, 5n, 0x20000000n], refused(EOPNOTSUPP)],
  ['a message', 'sendmsg', [3n, 4096n, 0x4000n], ALLOW],
  ['a message that connects', 'sendmsg', [3n, 4096n, 0x20004000n], refused(EOPNOTSUPP)],
  ['messages that connect', 'sendmmsg', [3n, 4096n, 2n, 0x20000000n], refused(EOPNOTSUPP)],
  ['a thread', 'clone', [0x3d0f00n], ALLOW],
  ['a process', 'clone', [0x1200011n], ASK],
  ['a handler of ended processes', 'rt_sigaction', [17n, 4096n], ASK],
  ['a handler of another signal', 'rt_sigaction', [15n, 4096n], ALLOW],
  ['a process in a user namespace', 'clone', [0x10000011n], ASK],
  ['clone with its arguments in memory', 'clone3', [4096n, 88n], refused(ENOSYS)],
  ['looking into a process', 'ptrace', [16n, 1n], refused(EPERM)],
  ['taking a descriptor', 'pidfd_getfd', [3n, 4n], refused(EPERM)],
  ['a ring of calls', 'io_uring_setup', [8n, 4096n], refused(ENOSYS)],
  ['memory that outlives the run', 'shmget', [0n, 4096n], refused(EPERM)],
  ['mounting', 'mount', [], refused(EPERM)],
  ['bounds of its own', 'prlimit64', [0n, 7n, 4096n], ALLOW],
  ['bounds of another process', 'prlimit64', [77n, 7n, 4096n], ASK],
  ['processors of its own', 'sched_setaffinity', [0n, 8n, 4096n], ALLOW],
  ['processors of another process', 'sched_setaffinity', [77n, 8n, 4096n], ASK],
  ['precedence of its own', 'setpriority', [0n, 0n, 5n], ALLOW],
  ['precedence of another process', 'setpriority', [0n, 77n, 5n], ASK],
  ['precedence of a whole user', 'setpriority', [2n, 0n, 19n], refused(EPERM)],
  ['disk precedence of a whole user', 'ioprio_set', [3n, 0n, 0n], refused(EPERM)],
]

/** What reaches others is refused where nobody can be asked. */
const STEERS = new Set<SystemCall>(['prlimit64', 'sched_setaffinity', 'setpriority'])

/** The return value of a filter (linux/seccomp.h), which is of classic BPF. Throws where it runs past its end. */
function filtered(
  program: Buffer,
  call: { number: number; audit: number; arguments?: readonly bigint[] },
): number {
  const { number, audit, arguments: given = [] } = call
  const data = Buffer.alloc(64)
  data.writeUInt32LE(number >>> 0, 0)
  data.writeUInt32LE(audit, 4)
  given.forEach((value, index) => data.writeBigUInt64LE(BigInt.asUintN(64, value), 16 + 8 * index))
  let accumulator = 0
  for (let at = 0; at < program.length / 8; at++) {
    const code = program.readUInt16LE(8 * at)
    const [whenTrue, whenFalse] = [program[8 * at + 2] as number, program[8 * at + 3] as number]
    const value = program.readUInt32LE(8 * at + 4)
    const jump = (holds: boolean) => (at += holds ? whenTrue : whenFalse)
    if (code === 0x20) accumulator = data.readUInt32LE(value)
    else if (code === 0x54) accumulator = (accumulator & value) >>> 0
    else if (code === 0x15) jump(accumulator === value)
    else if (code === 0x35) jump(accumulator >= value)
    else if (code === 0x45) jump((accumulator & value) !== 0)
    else if (code === 0x06) return value
    else throw new Error(`an instruction that is not known: ${code}`)
  }
  throw new Error('the filter has no end')
}

describe.each(['x64', 'arm64'])('on %s', (name) => {
  const architecture = architectureOf(name) as Architecture
  const filter = sandboxFilter(architecture, { signals: false, supervisor: true })
  const { audit, numbers } = architecture

  test.for(CALLS)('%s', ([, call, given, answer]) => {
    const number = numbers[call]
    expect(filtered(filter, { number, audit, arguments: given })).toBe(answer)
    const high = given.map((value) => value | HIGH)
    expect(filtered(filter, { number, audit, arguments: high })).toBe(answer)
  })

  test('everything else is allowed', () => {
    const known = new Set<number>(Object.values(numbers))
    const others = [...Array(480).keys()].filter((one) => !known.has(one))
    const answers = new Set(others.map((number) => filtered(filter, { number, audit })))
    expect([...answers]).toEqual([ALLOW])
  })

  test('calls of another architecture are not', () => {
    expect(filtered(filter, { number: numbers.connect, audit: 0x40000003 })).toBe(refused(EPERM))
  })

  test('signals are asked about where nothing else keeps them', () => {
    const asking = sandboxFilter(architecture, { signals: true, supervisor: true })
    for (const call of ['kill', 'tgkill', 'pidfd_open'] as const) {
      expect(filtered(filter, { number: numbers[call], audit })).toBe(ALLOW)
      expect(filtered(asking, { number: numbers[call], audit })).toBe(ASK)
    }
  })

  test('without a supervisor nothing is asked, and what is refused stays refused', () => {
    const alone = sandboxFilter(architecture, { signals: false, supervisor: false })
    for (const [, call, given, answer] of CALLS) {
      const action = filtered(alone, { number: numbers[call], audit, arguments: given })
      expect(action).toBe(answer === ASK ? (STEERS.has(call) ? refused(EPERM) : ALLOW) : answer)
    }
  })
})

test('x32 calls, which share a name with x86-64, are refused', () => {
  const architecture = architectureOf('x64') as Architecture
  const filter = sandboxFilter(architecture, { signals: false, supervisor: true })
  const number = 0x40000000 + 42
  expect(filtered(filter, { number, audit: architecture.audit })).toBe(refused(EPERM))
})

test('an architecture that is not known has no filter', () => {
  expect(architectureOf('riscv64')).toBeUndefined()
})
