// What user code may read of the system, and the few devices that it may write to. Everything else, such
// as the agent's data folder, homes, temporary folders and other runs, does not exist for it.
import type { LandlockPaths } from './landlock.ts'

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

export function pathsOf(run: { folder: string; readable: readonly string[] }): LandlockPaths {
  return { read: [...SYSTEM, ...run.readable], write: [run.folder], writeInto: DEVICES }
}
