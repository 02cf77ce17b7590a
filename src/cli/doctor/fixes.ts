// Fixes of `vedette doctor`, and where it runs. A fix is one line that holds for Docker, Kubernetes and a machine.
import { existsSync } from 'node:fs'
import type { Environment } from '../../process/env.ts'

/** The environment of this process. */
export type Place = 'container' | 'kubernetes' | 'machine'

/** Detects the environment of this process. */
export function placeOf(env: Environment): Place {
  if ((env['KUBERNETES_SERVICE_HOST'] ?? '') !== '') return 'kubernetes'
  // Our images set VEDETTE_IMAGE; not every container engine creates a marker file.
  const isContainer =
    env['VEDETTE_IMAGE'] !== undefined ||
    existsSync('/.dockerenv') ||
    existsSync('/run/.containerenv')
  return isContainer ? 'container' : 'machine'
}

const OWNER = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 }
const quoted = (value: string) => (/^[\w./:@-]+$/.test(value) ? value : `"${value}"`)

/** The fixes that more than one probe or case needs. */
export const FIXES = {
  variable: (name: string, value: string) => `set ${name}=${quoted(value)}`,
  /** A kernel parameter of the network namespace. */
  sysctl: (name: string, value: string) =>
    `set ${name}=${quoted(value)}  (docker run --sysctl, sysctls of the pod, or sysctl -w on the host)`,
  volume: (folder: string) =>
    `mount a volume on ${folder}, or set DATA_DIR to a folder that this user may write to`,
  /** Makes the user of this process the owner of a folder; a tmpfs is new with each container. */
  owner: (folder: string, inMemory: boolean) =>
    inMemory
      ? `mount ${folder} with uid=${OWNER.uid},gid=${OWNER.gid},mode=0751`
      : `chown -R ${OWNER.uid}:${OWNER.gid} ${folder}  (in a container: the folder that is mounted there)`,
  user: 'run the agent as another user  (docker run --user 10001, or runAsUser: 10001)',
  authority: 'set NODE_EXTRA_CA_CERTS to a file with its authority (PEM)',
  nameServers:
    'set other name servers  (docker run --dns, dnsConfig of the pod, or /etc/resolv.conf)',
  network: 'lead it to them  (docker run --network, or a route: ip route add default via <router>)',
} as const
