// The lines that fix something, as they are written where this process runs: for `docker run`, in a pod of
// Kubernetes, or on a machine.
import { existsSync } from 'node:fs'
import type { Environment } from '../../process/env.ts'

/** What this process runs in. */
export type Place = 'container' | 'kubernetes' | 'machine'

/** Finds out what this process runs in. */
export function placeOf(env: Environment): Place {
  if ((env['KUBERNETES_SERVICE_HOST'] ?? '') !== '') return 'kubernetes'
  // Images set their name; not every engine leaves a mark of its own.
  const isContainer =
    env['VEDETTE_IMAGE'] !== undefined ||
    existsSync('/.dockerenv') ||
    existsSync('/run/.containerenv')
  return isContainer ? 'container' : 'machine'
}

/** Lines that fix. */
export interface Fixes {
  /** Sets an environment variable. */
  variable(name: string, value: string): string
  /** Sets a kernel parameter of the network namespace. */
  sysctl(name: string, value: string): string
  /** Gives a place that can be written to. */
  volume(folder: string): string
  /** Gives a folder to the user of this process; one in memory is new with each container. */
  owner(folder: string, inMemory: boolean): string
  /** Lets the sandbox ask the kernel for what it needs; undefined where no profile stands in its way. */
  seccomp(): string | undefined
  /** Runs it as a user other than root. */
  user(): string
  /** Trusts an authority. */
  authority(): string
  /** Names other name servers. */
  nameServers(): string
  /** Gives a way to them. */
  network(): string
}

const CA = '/etc/vedette/ca.pem'
/** Of the images. */
const USER_ID = 10_001
const NAME_SERVER = '<name server>'

/** The lines for a place. */
export function fixesFor(place: Place): Fixes {
  const [uid, gid] = [process.getuid?.() ?? 0, process.getgid?.() ?? 0]
  const user = `${uid}:${gid}`
  const quoted = (value: string) => (/^[\w./:@-]+$/.test(value) ? value : `"${value}"`)
  switch (place) {
    case 'kubernetes':
      return {
        variable: (name, value) => `env: [{ name: ${name}, value: "${value}" }]`,
        sysctl: (name, value) =>
          `securityContext: { sysctls: [{ name: ${name}, value: "${value}" }] }  (of the pod)`,
        volume: (folder) =>
          `volumeMounts: [{ name: data, mountPath: ${folder} }]  and  volumes: [{ name: data, emptyDir: {} }]`,
        owner: () => `securityContext: { fsGroup: ${gid} }  (of the pod)`,
        seccomp: () =>
          'securityContext: { seccompProfile: { type: Localhost, localhostProfile: <docker/seccomp.json on the node> } }',
        user: () => `securityContext: { runAsUser: ${USER_ID}, runAsNonRoot: true }`,
        authority: () =>
          `env: [{ name: NODE_EXTRA_CA_CERTS, value: ${CA} }]  with a ConfigMap mounted at /etc/vedette`,
        nameServers: () =>
          `dnsPolicy: None  and  dnsConfig: { nameservers: ["${NAME_SERVER}"] }  (of the pod)`,
        network: () => 'kubectl describe pod  (why it has no network)',
      }
    case 'container':
      return {
        variable: (name, value) => `docker run -e ${name}=${quoted(value)} …`,
        sysctl: (name, value) =>
          `docker run --sysctl ${name}=${quoted(value)} …  (with --network host: sysctl -w on the host)`,
        volume: (folder) => `docker run -v vedette:${folder} …`,
        owner: (folder, inMemory) =>
          inMemory
            ? `docker run --tmpfs ${folder}:uid=${uid},gid=${gid},mode=0751 …`
            : `chown -R ${user} <the folder that is mounted on ${folder}>`,
        seccomp: () => 'docker run --security-opt seccomp=docker/seccomp.json …',
        user: () => `docker run --user ${USER_ID} …`,
        authority: () => `docker run -v "$PWD/ca.pem:${CA}:ro" -e NODE_EXTRA_CA_CERTS=${CA} …`,
        nameServers: () => `docker run --dns ${NAME_SERVER} …`,
        network: () => 'docker run --network <one that leads to them> …',
      }
    case 'machine':
    default:
      return {
        variable: (name, value) => `export ${name}=${quoted(value)}`,
        sysctl: (name, value) => `sysctl -w ${name}=${quoted(value)}`,
        volume: () => 'export DATA_DIR=<a folder that this user may write to>',
        owner: (folder) => `chown -R ${user} ${folder}`,
        seccomp: () => undefined,
        user: () => 'sudo -u <a user other than root> vedette agent',
        authority: () => 'export NODE_EXTRA_CA_CERTS=<the file with its authority, PEM>',
        nameServers: () => `nameserver ${NAME_SERVER}  (in /etc/resolv.conf)`,
        network: () => 'ip route add default via <router>',
      }
  }
}
