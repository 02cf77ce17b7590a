// Networks, volumes and leftovers of tests on Docker. Each object has a label with the process that created it. A
// test file removes its own after each test, a test run those of earlier runs.
import { randomBytes, randomUUID } from 'node:crypto'
import { getContainerRuntimeClient } from 'testcontainers'
import {
  isAlive,
  ownIdentity,
  type ProcessIdentity,
} from '../../../src/process/process-identity.ts'

const LABEL = 'vedette.test'

/** The label of all objects of this process. */
export const OWN_LABEL: Readonly<Record<string, string>> = {
  [LABEL]: encodeURIComponent(JSON.stringify(ownIdentity())),
}

let isUsed = false

/** The engine's own API. */
export async function engine() {
  isUsed = true
  return (await getContainerRuntimeClient()).container.dockerode
}

/** A separate network. */
export interface ContainerNetwork {
  name: string
  /** Address of this machine in it. */
  gateway: string
  /** Available once a container is in it. */
  gateway6: string
  /** Disconnects a container. */
  cut(containerId: string): Promise<void>
  heal(containerId: string): Promise<void>
}

/** Makes a network without egress except to this machine; on request with IPv6 in addition to IPv4. */
export async function createNetwork({ ipv6 = false } = {}): Promise<ContainerNetwork> {
  const docker = await engine()
  const site = randomBytes(6).toString('hex').match(/.{4}/g)?.join(':')
  const v6 = { Subnet: `fd00:${site}::/64`, Gateway: `fd00:${site}::1` }
  const network = await docker.createNetwork({
    Name: `vedette-test-${randomUUID()}`,
    Internal: true,
    EnableIPv6: ipv6,
    Labels: OWN_LABEL,
    ...(ipv6 && { IPAM: { Driver: 'default', Config: [v6] } }),
  })
  const { Name: name, IPAM } = await network.inspect()
  const gateways = (IPAM?.Config ?? []).map(({ Gateway = '' }) => Gateway.replace(/\/.*$/, ''))
  return {
    name,
    gateway: gateways.find((one) => one.includes('.')) ?? '',
    gateway6: v6.Gateway,
    cut: async (Container) => void (await network.disconnect({ Container, Force: true })),
    heal: async (Container) => void (await network.connect({ Container })),
  }
}

/** Makes a volume; returns its name. */
export async function createVolume(): Promise<string> {
  const Name = `vedette-test-${randomUUID()}`
  await (await engine()).createVolume({ Name, Labels: OWN_LABEL })
  return Name
}

/** Removes all objects of this process. */
export async function removeOwn(): Promise<void> {
  if (!isUsed) return
  const [own] = Object.values(OWN_LABEL)
  await removeWhere((label) => label === own)
}

/** Removes the objects of ended processes. */
export async function removeLeftOver(): Promise<void> {
  await removeWhere((label) => {
    const made = JSON.parse(decodeURIComponent(label)) as ProcessIdentity
    return isAlive(made) === false
  })
}

async function removeWhere(fits: (label: string) => boolean): Promise<void> {
  const docker = await engine()
  const filters = { label: [LABEL] }
  const isOne = ({ Labels }: { Labels?: Record<string, string> | undefined }) =>
    fits(Labels?.[LABEL] ?? '')
  const containers = await docker.listContainers({ all: true, filters })
  await Promise.all(
    containers
      .filter(isOne)
      .map(({ Id }) => docker.getContainer(Id).remove({ force: true, v: true }).catch(isGone)),
  )
  const { Volumes } = await docker.listVolumes({ filters })
  for (const { Name } of (Volumes ?? []).filter(isOne)) {
    await docker.getVolume(Name).remove().catch(isGone)
  }
  for (const { Id } of (await docker.listNetworks({ filters })).filter(isOne)) {
    await docker.getNetwork(Id).remove().catch(isGone)
  }
}

/** Ignores an object that is already gone; throws any other error. */
function isGone(error: unknown): void {
  const { statusCode } = error as { statusCode?: number }
  if (statusCode !== 404 && statusCode !== 409) throw error
}
