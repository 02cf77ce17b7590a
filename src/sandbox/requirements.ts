// Requirements of the sandbox that this system does not meet, each with its fix: the same texts for refused runs,
// the log and readiness.
import type { SandboxLayers } from './request.ts'

/** The profile that this project brings, where a container's own refuses too much. */
const PROFILE = '--security-opt seccomp=docker/seccomp.json'

export interface MissingRequirement {
  what: string
  fix?: string
}

/** In one sentence. */
export function requirementText({ what, fix }: MissingRequirement): string {
  return fix === undefined ? what : `${what}: ${fix}`
}

/** The first missing requirement where SCRIPT_ISOLATION is `require`; undefined when all are met. */
export function missingRequirementOf({
  ownUser,
  landlock,
  network,
}: SandboxLayers): MissingRequirement | undefined {
  if (!ownUser && landlock === 0) {
    return {
      what: 'this system has no Landlock or refuses it, and the agent may not change to another user',
      fix: `start the container with ${PROFILE}, or as root, or use Linux 5.13 or later`,
    }
  }
  if (network) return undefined
  return {
    what: 'this system does not permit seccomp notifications',
    fix: `start the container with ${PROFILE}, or use Linux 5.9 or later`,
  }
}

/** Recommendations: not needed, but better to have. */
export function recommendationsOf(facts: {
  layers: SandboxLayers
  /** User code gets user namespaces. */
  namespaces: boolean
  hasChromium: boolean
  /** Where runs have their folders, and whether programs in there can be started. */
  root: string
  canExecute: boolean
}): MissingRequirement[] {
  const { layers, namespaces, hasChromium, root, canExecute } = facts
  const all: MissingRequirement[] = []
  if (!canExecute) {
    all.push({
      what: `programs below ${root} cannot be started, so browsers and most suites cannot run`,
      fix: 'mount it with exec, as in --tmpfs /tmp:exec, or set DATA_DIR to a folder on a volume',
    })
  }
  if (layers.ownUser && layers.landlock === 0) {
    all.push({ what: 'this system has no Landlock: user code can read what every user can read' })
  }
  if (hasChromium && !namespaces) {
    all.push({
      what: 'Chromium runs without its own sandbox, in that of the agent alone: this system permits no user namespaces',
      fix: `start the container with ${PROFILE}`,
    })
  }
  return all
}

/** Whether only an administrator may look into processes, even into those that one has started. */
export function missingTracing(scope: string): MissingRequirement | undefined {
  if (!/^[23]$/.test(scope.trim())) return undefined
  return {
    what: 'all connections of user code are refused',
    fix: 'kernel.yama.ptrace_scope must be 0 or 1',
  }
}
