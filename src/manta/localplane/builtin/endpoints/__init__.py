"""EndpointSlices (and the older Endpoints): the Pods of a Service.

`addresses` computes the endpoints and their readiness, `slices` packs them into slices of at most a
hundred with few writes, `legacy` builds the old Endpoints object, `plan` joins them. All are pure but
the controller.
"""
