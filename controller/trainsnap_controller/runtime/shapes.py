# SPDX-License-Identifier: Apache-2.0
"""What the Kubernetes and JobSet types do with empty values, type by type. Data only; read by ``normalform``.

JobSet v0.12 is built from Kubernetes 1.36 types. A document that went through those types has lost the zero values of
fields that are no pointers, and has gained objects and quantities that are never left out. The API server stores what
it is given, so a document that differs in this is another document, and JobSet freezes it. Taken from the types' field
declarations; fields that need no treatment are not listed.

One deviation: ``replicas`` of a replicated job keeps its 0, where the types would turn "none" into the default 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Shape:
    """One type. ``zero``: scalar fields that vanish when they are "", 0 or false.

    ``fields``: what the others hold. ``map``: strings by key, vanishes when empty; ``quantity``; ``quantities``: by
    key, vanishes when empty; ``text``; else the name of a type, of which a list holds elements. ``+``: always there.
    """

    zero: frozenset[str]
    fields: Mapping[str, str]


def _shape(zero: str, **fields: str) -> Shape:
    return Shape(frozenset(zero.split()), fields)


SHAPES: Final[Mapping[str, Shape]] = {
    "AWSElasticBlockStoreVolumeSource": _shape("fsType partition readOnly"),
    "Affinity": _shape("", nodeAffinity="NodeAffinity", podAffinity="PodAffinity", podAntiAffinity="PodAntiAffinity"),
    "AzureFileVolumeSource": _shape("readOnly"),
    "CSIVolumeSource": _shape("", volumeAttributes="map", nodePublishSecretRef="LocalObjectReference"),
    "CephFSVolumeSource": _shape("path user secretFile readOnly", secretRef="LocalObjectReference"),
    "CinderVolumeSource": _shape("fsType readOnly", secretRef="LocalObjectReference"),
    "ClusterTrustBundleProjection": _shape("", labelSelector="LabelSelector"),
    "ConfigMapEnvSource": _shape("name"),
    "ConfigMapKeySelector": _shape("name"),
    "ConfigMapProjection": _shape("name"),
    "ConfigMapVolumeSource": _shape("name"),
    "Container": _shape(
        ("image workingDir terminationMessagePath terminationMessagePolicy imagePullPolicy stdin stdinOnce tty"),
        ports="ContainerPort",
        envFrom="EnvFromSource",
        env="EnvVar",
        resources="+ResourceRequirements",
        restartPolicyRules="ContainerRestartRule",
        volumeMounts="VolumeMount",
        livenessProbe="Probe",
        readinessProbe="Probe",
        startupProbe="Probe",
        lifecycle="Lifecycle",
        securityContext="SecurityContext",
    ),
    "ContainerPort": _shape("name hostPort protocol hostIP"),
    "ContainerRestartRule": _shape("action", exitCodes="ContainerRestartRuleOnExitCodes"),
    "ContainerRestartRuleOnExitCodes": _shape("operator"),
    "Coordinator": _shape("jobIndex podIndex"),
    "DownwardAPIProjection": _shape("", items="DownwardAPIVolumeFile"),
    "DownwardAPIVolumeFile": _shape("", fieldRef="ObjectFieldSelector", resourceFieldRef="ResourceFieldSelector"),
    "DownwardAPIVolumeSource": _shape("", items="DownwardAPIVolumeFile"),
    "EmptyDirVolumeSource": _shape("medium", sizeLimit="quantity"),
    "EnvFromSource": _shape("prefix", configMapRef="ConfigMapEnvSource", secretRef="SecretEnvSource"),
    "EnvVar": _shape("value", valueFrom="EnvVarSource"),
    "EnvVarSource": _shape(
        "",
        fieldRef="ObjectFieldSelector",
        resourceFieldRef="ResourceFieldSelector",
        configMapKeyRef="ConfigMapKeySelector",
        secretKeyRef="SecretKeySelector",
    ),
    "EphemeralContainer": _shape(
        (
            "image workingDir terminationMessagePath terminationMessagePolicy "
            "imagePullPolicy stdin stdinOnce tty targetContainerName"
        ),
        ports="ContainerPort",
        envFrom="EnvFromSource",
        env="EnvVar",
        resources="+ResourceRequirements",
        restartPolicyRules="ContainerRestartRule",
        volumeMounts="VolumeMount",
        livenessProbe="Probe",
        readinessProbe="Probe",
        startupProbe="Probe",
        lifecycle="Lifecycle",
        securityContext="SecurityContext",
    ),
    "EphemeralVolumeSource": _shape("", volumeClaimTemplate="PersistentVolumeClaimTemplate"),
    "FCVolumeSource": _shape("fsType readOnly"),
    "FailurePolicy": _shape("maxRestarts restartStrategy"),
    "FlexVolumeSource": _shape("fsType readOnly", secretRef="LocalObjectReference", options="map"),
    "FlockerVolumeSource": _shape("datasetName datasetUUID"),
    "GCEPersistentDiskVolumeSource": _shape("fsType partition readOnly"),
    "GitRepoVolumeSource": _shape("revision directory"),
    "GlusterfsVolumeSource": _shape("readOnly"),
    "HTTPGetAction": _shape("path host scheme"),
    "ISCSIVolumeSource": _shape(
        "iscsiInterface fsType readOnly chapAuthDiscovery chapAuthSession", secretRef="LocalObjectReference"
    ),
    "ImageVolumeSource": _shape("reference pullPolicy"),
    "JobSetSpec": _shape(
        "",
        replicatedJobs="ReplicatedJob",
        network="Network",
        failurePolicy="FailurePolicy",
        coordinator="Coordinator",
        volumeClaimPolicies="VolumeClaimPolicy",
    ),
    "JobSpec": _shape("", podFailurePolicy="PodFailurePolicy", selector="LabelSelector", template="+PodTemplateSpec"),
    "JobTemplateSpec": _shape("", metadata="+ObjectMeta", spec="+JobSpec"),
    "LabelSelector": _shape("", matchLabels="map"),
    "Lifecycle": _shape("", postStart="LifecycleHandler", preStop="LifecycleHandler"),
    "LifecycleHandler": _shape("", httpGet="HTTPGetAction", tcpSocket="TCPSocketAction"),
    "LocalObjectReference": _shape("name"),
    "NFSVolumeSource": _shape("readOnly"),
    "Network": _shape("subdomain"),
    "NodeAffinity": _shape("", preferredDuringSchedulingIgnoredDuringExecution="PreferredSchedulingTerm"),
    "ObjectFieldSelector": _shape("apiVersion"),
    "ObjectMeta": _shape("name namespace", labels="map", annotations="map"),
    "PersistentVolumeClaim": _shape(
        "kind apiVersion",
        metadata="+ObjectMeta",
        spec="+PersistentVolumeClaimSpec",
        status="+PersistentVolumeClaimStatus",
    ),
    "PersistentVolumeClaimSpec": _shape(
        "volumeName", selector="LabelSelector", resources="+VolumeResourceRequirements"
    ),
    "PersistentVolumeClaimTemplate": _shape("", metadata="+ObjectMeta", spec="+PersistentVolumeClaimSpec"),
    "PersistentVolumeClaimVolumeSource": _shape("readOnly"),
    "PersistentVolumeClaimCondition": _shape("reason message"),
    "PersistentVolumeClaimStatus": _shape(
        "phase",
        capacity="quantities",
        conditions="PersistentVolumeClaimCondition",
        allocatedResources="quantities",
        allocatedResourceStatuses="map",
        modifyVolumeStatus="ModifyVolumeStatus",
    ),
    "ModifyVolumeStatus": _shape("targetVolumeAttributesClassName"),
    "PhotonPersistentDiskVolumeSource": _shape("fsType"),
    "PodAffinity": _shape(
        "",
        requiredDuringSchedulingIgnoredDuringExecution="PodAffinityTerm",
        preferredDuringSchedulingIgnoredDuringExecution="WeightedPodAffinityTerm",
    ),
    "PodAffinityTerm": _shape("", labelSelector="LabelSelector", namespaceSelector="LabelSelector"),
    "PodAntiAffinity": _shape(
        "",
        requiredDuringSchedulingIgnoredDuringExecution="PodAffinityTerm",
        preferredDuringSchedulingIgnoredDuringExecution="WeightedPodAffinityTerm",
    ),
    "PodCertificateProjection": _shape(
        "signerName keyType credentialBundlePath keyPath certificateChainPath", userAnnotations="map"
    ),
    "PodDNSConfig": _shape("", options="PodDNSConfigOption"),
    "PodDNSConfigOption": _shape("name"),
    "PodFailurePolicy": _shape("", rules="PodFailurePolicyRule"),
    "PodFailurePolicyRule": _shape("", onPodConditions="PodFailurePolicyOnPodConditionsPattern"),
    "PodFailurePolicyOnPodConditionsPattern": _shape("", status="+text"),
    "PodSecurityContext": _shape("", seLinuxOptions="SELinuxOptions"),
    "PodSpec": _shape(
        (
            "restartPolicy dnsPolicy serviceAccountName serviceAccount nodeName hostNetwork "
            "hostPID hostIPC hostname subdomain schedulerName priorityClassName"
        ),
        volumes="Volume",
        initContainers="Container",
        containers="Container",
        ephemeralContainers="EphemeralContainer",
        nodeSelector="map",
        securityContext="PodSecurityContext",
        imagePullSecrets="LocalObjectReference",
        affinity="Affinity",
        tolerations="Toleration",
        dnsConfig="PodDNSConfig",
        overhead="quantities",
        topologySpreadConstraints="TopologySpreadConstraint",
        resources="ResourceRequirements",
    ),
    "PodTemplateSpec": _shape("", metadata="+ObjectMeta", spec="+PodSpec"),
    "PortworxVolumeSource": _shape("fsType readOnly"),
    "PreferredSchedulingTerm": _shape("", preference="+"),
    "Probe": _shape(
        ("initialDelaySeconds timeoutSeconds periodSeconds successThreshold failureThreshold"),
        httpGet="HTTPGetAction",
        tcpSocket="TCPSocketAction",
    ),
    "ProjectedVolumeSource": _shape("", sources="VolumeProjection"),
    "QuobyteVolumeSource": _shape("readOnly user group tenant"),
    "RBDVolumeSource": _shape("fsType pool user keyring readOnly", secretRef="LocalObjectReference"),
    "ReplicatedJob": _shape("groupName", template="+JobTemplateSpec"),
    "ResourceClaim": _shape("request"),
    "ResourceFieldSelector": _shape("containerName", divisor="+quantity"),
    "ResourceRequirements": _shape("", limits="quantities", requests="quantities", claims="ResourceClaim"),
    "SELinuxOptions": _shape("user role type level"),
    "ScaleIOVolumeSource": _shape(
        "sslEnabled protectionDomain storagePool storageMode volumeName fsType readOnly",
        secretRef="LocalObjectReference",
    ),
    "SecretEnvSource": _shape("name"),
    "SecretKeySelector": _shape("name"),
    "SecretProjection": _shape("name"),
    "SecretVolumeSource": _shape("secretName"),
    "SecurityContext": _shape("", seLinuxOptions="SELinuxOptions"),
    "ServiceAccountTokenProjection": _shape("audience"),
    "StorageOSVolumeSource": _shape("volumeName volumeNamespace fsType readOnly", secretRef="LocalObjectReference"),
    "TCPSocketAction": _shape("host"),
    "Toleration": _shape("key operator value effect"),
    "TopologySpreadConstraint": _shape("", labelSelector="LabelSelector"),
    "Volume": _shape(
        "",
        emptyDir="EmptyDirVolumeSource",
        gcePersistentDisk="GCEPersistentDiskVolumeSource",
        awsElasticBlockStore="AWSElasticBlockStoreVolumeSource",
        gitRepo="GitRepoVolumeSource",
        secret="SecretVolumeSource",
        nfs="NFSVolumeSource",
        iscsi="ISCSIVolumeSource",
        glusterfs="GlusterfsVolumeSource",
        persistentVolumeClaim="PersistentVolumeClaimVolumeSource",
        rbd="RBDVolumeSource",
        flexVolume="FlexVolumeSource",
        cinder="CinderVolumeSource",
        cephfs="CephFSVolumeSource",
        flocker="FlockerVolumeSource",
        downwardAPI="DownwardAPIVolumeSource",
        fc="FCVolumeSource",
        azureFile="AzureFileVolumeSource",
        configMap="ConfigMapVolumeSource",
        vsphereVolume="VsphereVirtualDiskVolumeSource",
        quobyte="QuobyteVolumeSource",
        photonPersistentDisk="PhotonPersistentDiskVolumeSource",
        projected="ProjectedVolumeSource",
        portworxVolume="PortworxVolumeSource",
        scaleIO="ScaleIOVolumeSource",
        storageos="StorageOSVolumeSource",
        csi="CSIVolumeSource",
        ephemeral="EphemeralVolumeSource",
        image="ImageVolumeSource",
    ),
    "VolumeClaimPolicy": _shape("", templates="PersistentVolumeClaim"),
    "VolumeMount": _shape("readOnly subPath subPathExpr"),
    "VolumeProjection": _shape(
        "",
        secret="SecretProjection",
        downwardAPI="DownwardAPIProjection",
        configMap="ConfigMapProjection",
        serviceAccountToken="ServiceAccountTokenProjection",
        clusterTrustBundle="ClusterTrustBundleProjection",
        podCertificate="PodCertificateProjection",
    ),
    "VolumeResourceRequirements": _shape("", limits="quantities", requests="quantities"),
    "VsphereVirtualDiskVolumeSource": _shape("fsType storagePolicyName storagePolicyID"),
    "WeightedPodAffinityTerm": _shape("", podAffinityTerm="+PodAffinityTerm"),
}
