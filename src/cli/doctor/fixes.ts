// Fixes as lines to copy, in the form of the environment: `docker run`, a Kubernetes pod, or a shell.
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

/** Lines that fix a problem. */
export interface Fixes {
  /** Sets an environment variable. */
  variable(name: string, value: string): string
  /** Sets a kernel parameter of the network namespace. */
  sysctl(name: string, value: string): string
  /** Provides a writable volume. */
  volume(folder: string): string
  /** Makes the user of this process the owner of a folder; a tmpfs is new with each container. */
  owner(folder: string, inMemory: boolean): string
  /** Allows the system calls of the sandbox; undefined where no seccomp profile applies. */
  seccomp(): string | undefined
  /** Runs the agent as a user other than root. */
  user(): string
  /** Trusts an authority. */
  authority(): string
  /** Sets other name servers. */
  nameServers(): string
  /** Provides a network or a route. */
  network(): string
}

const CA = '/etc/vedette/ca.pem'
/** The user of our images. */
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
