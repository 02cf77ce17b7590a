// gRPC monitor: whether a server is healthy, or a method answers as expected, and how fast.
import { TargetFailure } from '../../network/target-failure.ts'
import { defineMonitor } from '../monitor.ts'
import { grpcDefinition, type GrpcMonitor } from './definition.ts'
import { grpcSamples } from './observed.ts'
import { deadlineMsOf, makePlan } from './plan.ts'

/** The gRPC type of monitor. Its protobuf library is loaded by the first run: an agent without one starts sooner. */
export const grpc = defineMonitor<GrpcMonitor>({
  definition: grpcDefinition,
  prepare(monitor) {
    const plan = makePlan(monitor)
    return async (context) => {
      const { runGrpc } = await import('./run.ts')
      return runGrpc(monitor, plan, context)
    }
  },
  async settingsProblem({ request }) {
    const { serviceDefinition, protoContent = '' } = request.grpcConfig
    if (serviceDefinition !== 'PROTO_FILE') return undefined
    const { registryOfText } = await import('./protobuf/text.ts')
    try {
      await registryOfText(protoContent)
      return undefined
    } catch (error) {
      if (!(error instanceof TargetFailure)) throw error
      return { path: ['request', 'grpcConfig', 'protoContent'], message: error.message }
    }
  },
  samples: grpcSamples,
  deadlineMs: deadlineMsOf,
})
