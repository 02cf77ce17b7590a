// Confines a process and all that it starts to some paths, by Landlock, which needs no privilege. Layouts
// and numbers are those of linux/landlock.h; what a kernel does not know yet is left out.
import { closeSync, openSync, statSync } from 'node:fs'
import {
  closeOnExec,
  errno,
  landlockAddPath,
  landlockRestrict,
  landlockRuleset,
  landlockVersion,
} from '../../network/native/syscalls.ts'

/** Paths and what may be done below them. */
export interface LandlockPaths {
  read: readonly string[]
  write: readonly string[]
  /** Existing files that may be written to; nothing may be created next to them. */
  writeInto: readonly string[]
}

const EXECUTE = 1n << 0n
const WRITE_FILE = 1n << 1n
const READ_FILE = 1n << 2n
const READ_DIR = 1n << 3n
const TRUNCATE = 1n << 14n
const IOCTL_DEV = 1n << 15n
/** Rights that mean something for a file that is no folder. */
const OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV

/** The first version of Landlock that keeps signals and abstract sockets within the confined processes. */
export const LANDLOCK_SCOPES_FROM = 6
const SCOPES = 0b11n

/** Rights that a version handles: all of them. */
function rightsOf(version: number): bigint {
  const count = version >= 5 ? 16n : version >= 3 ? 15n : version >= 2 ? 14n : 13n
  return (1n << count) - 1n
}

/**
 * Confines this thread, and with it every program that it becomes or starts. Needs PR_SET_NO_NEW_PRIVS.
 * Returns the version of Landlock that holds, 0 when the kernel has none. Paths that do not exist are
 * left out. Throws when the kernel has it and refuses.
 */
export function confine(paths: LandlockPaths): number {
  const version = landlockVersion()
  if (version === 0) return 0
  const all = rightsOf(version)
  const attributes = Buffer.alloc(version >= LANDLOCK_SCOPES_FROM ? 24 : 8)
  attributes.writeBigUInt64LE(all, 0)
  if (version >= LANDLOCK_SCOPES_FROM) attributes.writeBigUInt64LE(SCOPES, 16)
  const ruleset = landlockRuleset(attributes)
  if (ruleset < 0) throw new Error(`landlock_create_ruleset: errno ${errno()}`)
  closeOnExec(ruleset)
  for (const path of paths.read) allow(ruleset, path, EXECUTE | READ_FILE | READ_DIR)
  for (const path of paths.write) allow(ruleset, path, all)
  const into = (READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE | IOCTL_DEV) & all
  for (const path of paths.writeInto) allow(ruleset, path, into)
  if (landlockRestrict(ruleset) < 0) throw new Error(`landlock_restrict_self: errno ${errno()}`)
  closeSync(ruleset)
  return version
}

const O_PATH = 0o10000000
const O_CLOEXEC = 0o2000000

function allow(ruleset: number, path: string, rights: bigint): void {
  let fd: number
  try {
    fd = openSync(path, O_PATH | O_CLOEXEC)
  } catch {
    return
  }
  try {
    const rule = Buffer.alloc(12)
    const granted = statSync(path).isDirectory() ? rights : rights & OF_FILES
    rule.writeBigUInt64LE(granted, 0)
    rule.writeInt32LE(fd, 8)
    if (landlockAddPath(ruleset, rule) < 0) {
      throw new Error(`landlock_add_rule for ${path}: errno ${errno()}`)
    }
  } finally {
    closeSync(fd)
  }
}

// What user code may read of the system, and the few devices that it may write to. Everything else, such as the agent's
// data folder, homes, temporary folders and other runs, does not exist for it.

const OF_ROOT =
  '/usr /bin /sbin /lib /lib32 /lib64 /opt /nix/store /proc /sys /var/cache/fontconfig /var/lib/ca-certificates'
/** Settings of the system without secrets. */
const OF_ETC = `alternatives ca-certificates ca-certificates.conf chromium chromium.d crypto-policies debian_version
fonts gai.conf group host.conf hostname hosts inputrc ld.so.cache ld.so.conf ld.so.conf.d locale.alias localtime
machine-id mailcap mime.types networks nsswitch.conf os-release passwd pki protocols resolv.conf services shells ssl
terminfo timezone xdg`

/** Programs, libraries, fonts, certificates, and how names are resolved; nothing that holds secrets. */
const SYSTEM: readonly string[] = [
  ...OF_ROOT.split(' '),
  ...OF_ETC.split(/\s+/).map((name) => `/etc/${name}`),
]

/**
 * Devices without content of their own; no terminals, which may be in use. `/proc` because a sandbox in the sandbox
 * writes its user map.
 */
const DEVICES = ['/dev/null', '/dev/zero', '/dev/full', '/dev/random', '/dev/urandom', '/proc']

/** Landlock paths of a run: it reads the system and `readable`, writes its folder, and writes into devices. */
export function pathsOf(run: { folder: string; readable: readonly string[] }): LandlockPaths {
  return { read: [...SYSTEM, ...run.readable], write: [run.folder], writeInto: DEVICES }
}
