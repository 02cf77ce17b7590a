// Checks whether a process that is remembered from earlier is still the one with its number: numbers are
// given again, starting times are not.
import { readFileSync, readlinkSync } from 'node:fs'

/** One process of one machine. */
export interface ProcessIdentity {
  pid: number
  /** Clock ticks from the machine's start to the process's (proc(5), stat, field 22). */
  startedTicks: string
  /** The machine's boot and the process's namespace; numbers mean nothing outside of them. */
  space: string
}

export function ownIdentity(): ProcessIdentity {
  return { pid: process.pid, startedTicks: startedTicks(process.pid) ?? '', space: ownSpace() }
}

/** Whether the process is alive; undefined when it is not visible from here. */
export function isAlive(identity: ProcessIdentity): boolean | undefined {
  if (identity.space !== ownSpace()) return undefined
  return startedTicks(identity.pid) === identity.startedTicks
}

/** Start time of a process, in clock ticks; undefined when it does not exist or is a zombie. */
export function startedTicks(pid: number): string | undefined {
  try {
    // The name in parentheses may hold anything, so fields count from the last one.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? []
    return fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19]
  } catch {
    return undefined
  }
}

function ownSpace(): string {
  const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  return `${boot} ${readlinkSync('/proc/self/ns/pid')}`
}
