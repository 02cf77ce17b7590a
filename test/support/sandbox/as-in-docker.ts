// Executes its arguments behind a filter of system calls: of the calls that a sandbox uses, it refuses those that
// Docker's default seccomp profile refuses to a container without further capabilities.
import {
  addressOf,
  architectureOf,
  prctl,
  seccompFilter,
} from '../../../src/network/native/syscalls.ts'

const architecture = architectureOf(process.arch)
if (architecture === undefined) throw new Error(`no system calls are known of ${process.arch}`)
const { numbers } = architecture
const ALLOW = 0x7fff0000
const EPERM = 0x50001
const ENOSYS = 0x50026
const CLONE_NEWUSER = 0x10000000
const UNSHARE = process.arch === 'arm64' ? 97 : 272
const PR_SET_NO_NEW_PRIVS = 38

/** Code, jumps and value of instructions: load, compare, test bits, return (linux/bpf_common.h). */
const program: (readonly [number, number, number, number])[] = [[0x20, 0, 0, 0]]
const refused = [
  numbers.pidfd_getfd,
  numbers.process_vm_readv,
  numbers.process_vm_writev,
  numbers.process_madvise,
  numbers.kcmp,
  numbers.setns,
  numbers.mount,
]
for (const number of refused) program.push([0x15, 0, 1, number], [0x06, 0, 0, EPERM])
program.push([0x15, 0, 1, numbers.clone3], [0x06, 0, 0, ENOSYS])
for (const number of [numbers.clone, UNSHARE]) {
  program.push(
    [0x15, 0, 4, number],
    [0x20, 0, 0, 16],
    [0x45, 0, 1, CLONE_NEWUSER],
    [0x06, 0, 0, EPERM],
    [0x06, 0, 0, ALLOW],
  )
}
program.push([0x06, 0, 0, ALLOW])

const instructions = Buffer.alloc(8 * program.length)
program.forEach(([code, jumpTrue, jumpFalse, value], index) => {
  instructions.writeUInt16LE(code, 8 * index)
  instructions.writeUInt8(jumpTrue, 8 * index + 2)
  instructions.writeUInt8(jumpFalse, 8 * index + 3)
  instructions.writeUInt32LE(value, 8 * index + 4)
})
const filter = Buffer.alloc(16)
filter.writeUInt16LE(program.length, 0)
filter.writeBigUInt64LE(addressOf(instructions), 8)
prctl(PR_SET_NO_NEW_PRIVS, 1)
// For all threads, since any of them may execute the program.
if (seccompFilter(1, filter) !== 0) throw new Error('the filter was refused')

const [command, ...args] = process.argv.slice(2) as [string, ...string[]]
process.execve?.(command, [command, ...args], process.env)
