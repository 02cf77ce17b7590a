// Mount namespace of one run, for a project below a folder that the run's user may not pass, such as the home of
// root: the closed folder is covered by an empty one, and what the run needs below it is mounted at its own path.
import { closeSync, mkdirSync, openSync, realpathSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { effectiveCapabilities, errno, libcFunction } from '../../network/native/syscalls.ts'

// Of linux/sched.h, linux/mount.h and linux/capability.h.
const CLONE_NEWNS = 0x20000
const MS_NOSUID = 2
const MS_NODEV = 4
const MS_BIND = 4096
const MS_REC = 16_384
const MS_SLAVE = 1 << 19
const CAP_SYS_ADMIN = 21n
const O_PATH = 0o10000000
const O_CLOEXEC = 0o2000000

const unshare = libcFunction('int unshare(int)')
const mountPath = libcFunction(
  'int mount(const char *, const char *, const char *, unsigned long, const char *)',
)

/** Whether this process has the right to mount (CAP_SYS_ADMIN). */
export function mayMount(): boolean {
  return ((effectiveCapabilities() >> CAP_SYS_ADMIN) & 1n) === 1n
}

/**
 * Lets the user pass to these absolute paths and to nothing else below the closed folders above them. Paths that do
 * not exist are left out. Changes the calling process alone, and nothing where no folder is closed or where the
 * system allows no mounts. Throws when a mount fails half-way.
 */
export function openWay(paths: readonly string[], userId: number): void {
  const needed = shortestFirst(paths)
  if (!needed.some((path) => closedAbove(path, userId) !== undefined)) return
  // Some systems give the namespace and then refuse mounts (AppArmor).
  if (Number(unshare(CLONE_NEWNS)) !== 0) return
  if (Number(mountPath(null, '/', null, MS_REC | MS_SLAVE, null)) !== 0) return
  // Opened in the new namespace: the kernel mounts nothing out of another one.
  const open = needed.map((path) => ({ path, fd: openSync(path, O_PATH | O_CLOEXEC) }))
  for (const { path, fd } of open) {
    const closed = closedAbove(path, userId)
    if (closed !== undefined) {
      mount('tmpfs', closed, 'tmpfs', MS_NOSUID | MS_NODEV, 'mode=0755,size=1m')
    }
    if (statOf(path) === undefined) mountAt(path, fd)
    closeSync(fd)
  }
}

/** Every path that exists, as it is written and without links on its way. */
function shortestFirst(paths: readonly string[]): string[] {
  const all = new Set<string>()
  for (const path of paths) {
    try {
      all.add(realpathSync(path)).add(path)
    } catch {
      continue
    }
  }
  return [...all].sort((a, b) => a.length - b.length)
}

const statOf = (path: string) => statSync(path, { throwIfNoEntry: false })

/** The outermost folder above the path that the user, who is in no other group, may not pass. */
function closedAbove(path: string, userId: number): string | undefined {
  let closed: string | undefined
  for (let at = dirname(path); ; at = dirname(at)) {
    const found = statOf(at)
    if (found !== undefined) {
      const bit = found.uid === userId ? 0o100 : found.gid === userId ? 0o010 : 0o001
      if ((found.mode & bit) === 0) closed = at
    }
    if (at === dirname(at)) return closed
  }
}

function mountAt(path: string, fd: number): void {
  const source = `/proc/self/fd/${fd}`
  if (statSync(source).isDirectory()) {
    mkdirSync(path, { recursive: true, mode: 0o755 })
  } else {
    mkdirSync(dirname(path), { recursive: true, mode: 0o755 })
    closeSync(openSync(path, 'a', 0o444))
  }
  mount(source, path, null, MS_BIND | MS_REC, null)
}

function mount(
  source: string,
  target: string,
  kind: string | null,
  flags: number,
  options: string | null,
): void {
  if (Number(mountPath(source, target, kind, flags, options)) === 0) return
  throw new Error(`the sandbox could not be built: mount on ${target}: errno ${errno()}`)
}
