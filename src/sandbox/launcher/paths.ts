// What user code may read of the system, and the few devices that it may write to. Everything else, such
// as the agent's data folder, homes, temporary folders and other runs, does not exist for it.
import type { LandlockPlan } from '../request.ts'

/** Programs, libraries, fonts, certificates, and how names are resolved; nothing that holds secrets. */
const SYSTEM: readonly string[] = [
  '/usr',
  '/bin',
  '/sbin',
  '/lib',
  '/lib32',
  '/lib64',
  '/opt',
  '/nix/store',
  '/proc',
  '/sys',
  '/var/cache/fontconfig',
  '/var/lib/ca-certificates',
  ...[
    'alternatives',
    'ca-certificates',
    'ca-certificates.conf',
    'chromium',
    'chromium.d',
    'crypto-policies',
    'debian_version',
    'fonts',
    'gai.conf',
    'group',
    'host.conf',
    'hostname',
    'hosts',
    'inputrc',
    'ld.so.cache',
    'ld.so.conf',
    'ld.so.conf.d',
    'locale.alias',
    'localtime',
    'machine-id',
    'mailcap',
    'mime.types',
    'networks',
    'nsswitch.conf',
    'os-release',
    'passwd',
    'pki',
    'protocols',
    'resolv.conf',
    'services',
    'shells',
    'ssl',
    'terminfo',
    'timezone',
    'xdg',
  ].map((name) => `/etc/${name}`),
]

/**
 * Devices without content of their own; no terminals, which may be in use. `/proc` because a sandbox in the sandbox
 * writes its user map.
 */
const DEVICES: readonly string[] = [
  '/dev/null',
  '/dev/zero',
  '/dev/full',
  '/dev/random',
  '/dev/urandom',
  '/proc',
]

/** The paths of one run. */
export function pathsOf(run: { folder: string; readable: readonly string[] }): LandlockPlan {
  return {
    read: [...SYSTEM, ...run.readable],
    write: [run.folder],
    writeInto: DEVICES,
  }
}
