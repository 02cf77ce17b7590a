// What a sandbox lacks on this system, in words that name the fix: the same for the run that is refused, for the
// log and for readiness.
import type { SandboxLayers } from './request.ts'

/** The profile that this project brings, where a container's own refuses too much. */
const PROFILE = '--security-opt seccomp=docker/seccomp.json'

/** Something that is missing. */
export interface Lack {
  what: string
  fix?: string
}

/** In one sentence. */
export function lackText({ what, fix }: Lack): string {
  return fix === undefined ? what : `${what}: ${fix}`
}

/** What must not be lacking where SCRIPT_ISOLATION is `require`; undefined when it all holds. */
export function lackOf({ ownUser, landlock, network }: SandboxLayers): Lack | undefined {
  if (!ownUser && landlock === 0) {
    return {
      what: 'this system has no Landlock or refuses it, and the agent may not change to another user',
      fix: `start the container with ${PROFILE}, or as root, or take a Linux from 5.13 on`,
    }
  }
  if (network) return undefined
  return {
    what: 'this system refuses to ask about system calls (seccomp)',
    fix: `start the container with ${PROFILE}, or take a Linux from 5.9 on`,
  }
}

/** What is not needed and yet better had. */
export function recommendationsOf(facts: {
  layers: SandboxLayers
  /** User code gets user namespaces. */
  namespaces: boolean
  hasChromium: boolean
  /** Where runs have their folders, and whether programs in there can be started. */
  root: string
  canExecute: boolean
}): Lack[] {
  const { layers, namespaces, hasChromium, root, canExecute } = facts
  const all: Lack[] = []
  if (!canExecute) {
    all.push({
      what: `programs below ${root} cannot be started, so browsers and most suites cannot run`,
      fix: 'mount it with exec, as in --tmpfs /tmp:exec, or set DATA_DIR to a folder on a volume',
    })
  }
  if (layers.ownUser && layers.landlock === 0) {
    all.push({ what: 'this system has no Landlock: user code may read what every user may' })
  }
  if (hasChromium && !namespaces) {
    all.push({
      what: 'Chromium runs without its own sandbox, held by the sandbox alone: this system gives no user namespaces',
      fix: `in a container ${PROFILE} does`,
    })
  }
  return all
}

/** Whether only an administrator may look into processes, even into those that one has started. */
export function tracingLack(scope: string): Lack | undefined {
  if (!/^[23]$/.test(scope.trim())) return undefined
  return {
    what: 'connections of user code are all refused',
    fix: 'kernel.yama.ptrace_scope must be 0 or 1',
  }
}
