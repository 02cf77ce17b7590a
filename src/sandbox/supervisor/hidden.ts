// Files of a run that have neither a name nor a descriptor: mapped into memory, or on their way in a local socket.
// Finding them is expensive, and sockets do not show sizes, so it is done only when the machine uses more than is
// visible, and never counts more than that.
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { asUser } from './as-user.ts'
import type { ProcessFacts } from './processes.ts'

/** Looks for them, again and again. */
export class HiddenFiles {
  readonly #userId: number | undefined
  /** Sockets in which descriptors were waiting. */
  #waiting: ReadonlySet<string> = new Set()

  constructor(userId: number | undefined) {
    this.#userId = userId
  }

  /** Bytes in them, at most as many as are missed. */
  count(all: readonly ProcessFacts[], missedBytes: number): number {
    const before = this.#waiting
    const [mapped, waiting] = [new Map<string, number>(), new Set<string>()]
    for (const { pid } of all) {
      asUser(this.#userId, () => addMapped(pid, mapped))
      asUser(this.#userId, () => addWaiting(pid, waiting))
    }
    this.#waiting = waiting
    // A reader removes them at once; those that stay are stored there.
    if ([...waiting].some((socket) => before.has(socket))) return missedBytes
    let bytes = 0
    for (const size of mapped.values()) bytes += size
    return Math.min(bytes, missedBytes)
  }
}

/** `7f00-7f80 rw-s 00001000 08:01 1234 /a/path (deleted)`, of proc(5), maps. */
const DELETED =
  /^([\da-f]+)-([\da-f]+) \S+ ([\da-f]+) ([\da-f]+:[\da-f]+) ([1-9]\d*) .*\(deleted\)$/gm

/** Adds mapped files without a name, by device and number; true when the process could be looked into. */
function addMapped(pid: number, files: Map<string, number>): true | undefined {
  try {
    const maps = readFileSync(`/proc/${pid}/maps`, 'latin1')
    for (const [, from = '', to = '', offset = '', device, inode] of maps.matchAll(DELETED)) {
      const key = `${device} ${inode}`
      const reach = parseInt(offset, 16) + parseInt(to, 16) - parseInt(from, 16)
      const bytes = bytesOf(`/proc/${pid}/map_files/${from}-${to}`) ?? reach
      files.set(key, Math.max(files.get(key) ?? 0, bytes))
    }
    return true
  } catch {
    return undefined
  }
}

/** What the whole file takes; undefined without the right to ask (CAP_CHECKPOINT_RESTORE): as far as it is mapped, then. */
function bytesOf(mapping: string): number | undefined {
  try {
    return statSync(mapping).blocks * 512
  } catch {
    return undefined
  }
}

/** Adds local sockets with unreceived descriptors in them; true when the process could be looked into. */
function addWaiting(pid: number, sockets: Set<string>): true | undefined {
  try {
    for (const fd of readdirSync(`/proc/${pid}/fdinfo`)) {
      const info = textOf(`/proc/${pid}/fdinfo/${fd}`)
      if (/^scm_fds:\s*[1-9]/m.test(info)) sockets.add(`${pid} ${fd}`)
    }
    return true
  } catch {
    return undefined
  }
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return ''
  }
}
